package io.fedrap.core;

import java.util.ArrayList;
import java.util.List;

/** Coordinator to anybody: signed entries of the log in a row, and the one of the latest release. */
final class LogPage {
    private static final int MOST_ENTRIES = 200;

    final List<byte[]> entries = new ArrayList<>();
    final byte[] head; // empty before the first release

    private LogPage(Fields fields) {
        for (Object one : fields.list("entries")) {
            boolean good = one instanceof byte[] && ((byte[]) one).length <= Authority.ENTRY_BYTES;
            if (!good || entries.size() == MOST_ENTRIES) {
                throw fields.refused("entries", "is not a list of up to 200 entries");
            }
            entries.add((byte[]) one);
        }
        head = fields.bytes("head", 0, Authority.ENTRY_BYTES, new byte[0]);
    }

    /** Throws as {@link Fields#ofMessage}. */
    static LogPage decode(byte[] raw) {
        return new LogPage(Fields.ofMessage(raw, Fields.MAX_BYTES, "log"));
    }
}
