package io.fedrap.core;

import java.io.IOException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Files in memory that fail when told: as a full disk, or as a process that dies at that call.
 *
 * <p>A loss of power keeps what was synced, and of the rest whatever the test chooses.
 */
final class FaultyFiles implements FileLayer {
    final Map<String, byte[]> files = new LinkedHashMap<>();
    private final Map<String, byte[]> durable = new LinkedHashMap<>();
    int calls;
    int failAt = Integer.MAX_VALUE; // which changing call fails
    int written = -1; // bytes of it that are written all the same; -1: none
    boolean dead; // every later call fails too

    /** What a new process finds. */
    FaultyFiles restarted() {
        FaultyFiles next = new FaultyFiles();
        next.files.putAll(files);
        next.durable.putAll(durable);
        return next;
    }

    /** What is there after a loss of power: only what was synced. */
    FaultyFiles afterPowerLoss() {
        FaultyFiles next = new FaultyFiles();
        next.files.putAll(durable);
        next.durable.putAll(durable);
        return next;
    }

    private boolean fails() throws IOException {
        calls++;
        if (calls > failAt && dead) {
            throw new IOException("dead");
        }
        return calls == failAt;
    }

    private void failing() throws IOException {
        if (fails()) {
            throw new IOException("No space left on device");
        }
    }

    @Override
    public String[] list() {
        return files.keySet().toArray(new String[0]);
    }

    @Override
    public byte[] read(String name) {
        byte[] raw = files.get(name);
        return raw == null ? null : raw.clone();
    }

    @Override
    public void write(String name, byte[] bytes) throws IOException {
        put(name, new byte[0], bytes);
    }

    @Override
    public void append(String name, byte[] bytes) throws IOException {
        put(name, files.getOrDefault(name, new byte[0]), bytes);
    }

    private void put(String name, byte[] before, byte[] bytes) throws IOException {
        boolean failing = fails();
        int size = failing ? Math.min(written, bytes.length) : bytes.length;
        if (size >= 0) {
            files.put(name, Bytes.join(before, Arrays.copyOf(bytes, size)));
        }
        if (failing) {
            throw new IOException("No space left on device");
        }
    }

    @Override
    public void truncate(String name, long size) throws IOException {
        failing();
        files.put(name, Arrays.copyOf(files.getOrDefault(name, new byte[0]), (int) size));
    }

    @Override
    public void sync(String name) throws IOException {
        failing();
        durable.put(name, files.get(name).clone());
    }

    @Override
    public void rename(String from, String to) throws IOException {
        failing();
        files.put(to, files.remove(from));
        durable.put(to, durable.remove(from));
    }

    @Override
    public void syncFolder() throws IOException {
        failing();
    }

    @Override
    public void delete(String name) throws IOException {
        failing();
        files.remove(name);
        durable.remove(name);
    }

    @Override
    public void close() {}
}
