package io.fedrap.core;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/** The files of a real folder, readable by their owner only. */
final class FolderFiles implements FileLayer {
    private static final long LARGEST = 1L << 30;

    private final File folder;
    private RandomAccessFile open; // the file that was appended to last: a journal takes many records
    private String openName;

    FolderFiles(File folder) {
        this.folder = folder;
    }

    @Override
    public String[] list() throws IOException {
        String[] names = folder.list();
        if (names == null) {
            throw new IOException("cannot list " + folder);
        }
        return names;
    }

    @Override
    public byte[] read(String name) throws IOException {
        File file = new File(folder, name);
        if (!file.exists()) {
            return null;
        }
        try (RandomAccessFile in = new RandomAccessFile(file, "r")) {
            if (in.length() > LARGEST) {
                throw new IOException(name + " is larger than a store's files are");
            }
            byte[] bytes = new byte[(int) in.length()];
            in.readFully(bytes);
            return bytes;
        }
    }

    @Override
    public void write(String name, byte[] bytes) throws IOException {
        RandomAccessFile file = opened(name);
        file.setLength(0);
        file.write(bytes);
    }

    @Override
    public void append(String name, byte[] bytes) throws IOException {
        RandomAccessFile file = opened(name);
        file.seek(file.length());
        file.write(bytes);
    }

    @Override
    public void truncate(String name, long size) throws IOException {
        opened(name).setLength(size);
    }

    @Override
    public void sync(String name) throws IOException {
        opened(name).getFD().sync();
    }

    @Override
    public void rename(String from, String to) throws IOException {
        close();
        replace(new File(folder, from), new File(folder, to));
    }

    @Override
    public void syncFolder() {
        try (FileChannel channel = FileChannel.open(folder.toPath(), StandardOpenOption.READ)) {
            channel.force(true);
        } catch (IOException error) {
            // Not every system opens folders; there a rename is as durable as it will get.
        }
    }

    @Override
    public void delete(String name) throws IOException {
        if (name.equals(openName)) {
            close();
        }
        Files.deleteIfExists(new File(folder, name).toPath());
    }

    @Override
    public void close() throws IOException {
        RandomAccessFile last = open;
        open = null;
        openName = null;
        if (last != null) {
            last.close();
        }
    }

    private RandomAccessFile opened(String name) throws IOException {
        if (!name.equals(openName)) {
            close();
            File file = new File(folder, name);
            boolean fresh = !file.exists();
            open = new RandomAccessFile(file, "rw");
            openName = name;
            if (fresh) {
                makePrivate(file);
            }
        }
        return open;
    }

    /** A file that only its owner reads: there whole and for good, or as it was before. */
    static void writePrivate(File file, byte[] bytes) throws IOException {
        File part = new File(file.getPath() + ".part");
        try {
            try (FileOutputStream out = new FileOutputStream(part)) {
                makePrivate(part); // while it is still empty
                out.write(bytes);
                out.getFD().sync();
            }
            replace(part, file);
        } finally {
            Files.deleteIfExists(part.toPath());
        }
    }

    private static void replace(File from, File to) throws IOException {
        Files.move(
                from.toPath(), to.toPath(),
                StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Mode 0600 for a file, 0700 for a folder, where the system has such modes. */
    @SuppressWarnings("ResultOfMethodCallIgnored")
    static void makePrivate(File file) {
        boolean folder = file.isDirectory();
        file.setReadable(false, false);
        file.setReadable(true, true);
        file.setWritable(false, false);
        file.setWritable(true, true);
        file.setExecutable(false, false);
        if (folder) {
            file.setExecutable(true, true);
        }
    }
}
