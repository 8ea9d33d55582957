"""What device and coordinator share: model, method, wire. No I/O, no clock, no logging."""
