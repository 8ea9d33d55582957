package io.fedrap.core;

/** An update ready to leave, and what must be kept first. */
final class Prepared {
    final byte[] round;
    final byte[] body;
    final Ledger.Entry entry;
    final double loss; // stays on the device

    Prepared(byte[] round, byte[] body, Ledger.Entry entry, double loss) {
        this.round = round;
        this.body = body;
        this.entry = entry;
        this.loss = loss;
    }
}
