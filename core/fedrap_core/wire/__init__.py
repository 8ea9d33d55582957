"""The protocol of spec/PROTOCOL.md: messages, their bytes, sealing, signing and problems."""
