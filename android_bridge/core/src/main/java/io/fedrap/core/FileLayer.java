package io.fedrap.core;

import java.io.Closeable;
import java.io.IOException;

/**
 * The few things that a store does with files of one folder: the seam where tests make them fail.
 *
 * <p>A crash may come between any two calls; what the calls promise is all that a store relies on.
 */
interface FileLayer extends Closeable {
    /** Names of the files that are there. */
    String[] list() throws IOException;

    /** The whole file; null when there is none. */
    byte[] read(String name) throws IOException;

    /** A new file with these bytes, or an old one replaced; not durable before {@link #sync}. */
    void write(String name, byte[] bytes) throws IOException;

    /** Bytes behind the end of a file, made when there is none; a crash may leave a part of them. */
    void append(String name, byte[] bytes) throws IOException;

    /** The file ends here from now on. */
    void truncate(String name, long size) throws IOException;

    /** What was written to this file survives a loss of power. */
    void sync(String name) throws IOException;

    /** {@code to} is this file from now on: before a crash the old one, after it the new one. */
    void rename(String from, String to) throws IOException;

    /** New, renamed and deleted names survive a loss of power. */
    void syncFolder() throws IOException;

    /** The file is gone; nothing where there is none. */
    void delete(String name) throws IOException;

    /** Lets go of open files. */
    @Override
    void close() throws IOException;
}
