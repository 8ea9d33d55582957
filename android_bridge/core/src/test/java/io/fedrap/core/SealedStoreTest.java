package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fedrap.core.FedRapException.Kind;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * What should happen: a commit is there whole or not at all, whatever fails and whenever.
 *
 * <p>What should not happen: a store that cannot be opened, a value from two commits, silent damage.
 */
class SealedStoreTest {
    private static final FixedKey KEY = new FixedKey(7);

    private static SealedStore open(FileLayer files) {
        return SealedStore.open(files, null, KEY);
    }

    private static byte[] text(String words) {
        return words.getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] large(int fill) {
        byte[] value = new byte[SealedStore.LARGE + 100];
        Arrays.fill(value, (byte) fill);
        return value;
    }

    private static Map<String, byte[]> changes(Object... pairs) {
        Map<String, byte[]> all = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            all.put((String) pairs[i], (byte[]) pairs[i + 1]);
        }
        return all;
    }

    /** Everything in a store, for comparing. */
    private static Map<String, String> contents(SealedStore store) {
        Map<String, String> found = new TreeMap<>();
        for (String name : store.names("")) {
            found.put(name, Bytes.hex(store.get(name)));
        }
        return found;
    }

    private static Kind kindOf(FaultyFiles files) {
        return assertThrows(FedRapException.class, () -> open(files)).kind();
    }

    @Test
    void valuesSurviveARestartAndDeletionsToo(@TempDir File folder) {
        SealedStore store = SealedStore.open(folder, new KeyFile(new File(folder, KeyFile.NAME)));
        store.commit(changes("a", text("one"), "b", text("two"), "big", large(1)), true);
        store.commit(changes("a", null, "b", text("three"), "big", large(2)), false);
        store.close();
        SealedStore again = SealedStore.open(folder, new KeyFile(new File(folder, KeyFile.NAME)));
        assertNull(again.get("a"));
        assertArrayEquals(text("three"), again.get("b"));
        assertArrayEquals(large(2), again.get("big"));
        again.close();
        long blobs = Arrays.stream(folder.list()).filter(n -> n.startsWith("blob-")).count();
        assertEquals(1, blobs, "the replaced one is gone");
    }

    @Test
    void nothingIsInTheFilesInClear() {
        FaultyFiles files = new FaultyFiles();
        SealedStore store = open(files);
        store.commit(changes("event/1", text("a secret item"), "big", Bytes.join(text("a secret item"), large(1))), true);
        store.forget(changes("event/2", text("a secret item")));
        for (byte[] raw : files.files.values()) {
            String all = new String(raw, StandardCharsets.ISO_8859_1);
            assertFalse(all.contains("secret") || all.contains("event"));
        }
    }

    @Test
    void whatIsForgottenIsInNoFileAnyMore() {
        FaultyFiles files = new FaultyFiles();
        SealedStore store = open(files);
        store.commit(changes("event/1", text("old")), true);
        String journal = "journal-1";
        assertTrue(files.files.containsKey(journal));
        store.forget(changes("event/1", null));
        assertFalse(files.files.containsKey(journal), "the journal that had it is gone");
        assertEquals(Collections.emptyMap(), contents(open(files.restarted())));
    }

    @Test
    void aTruncationAtAnyByteOfTheJournalGivesTheStateOfAnEarlierCommit() {
        FaultyFiles files = new FaultyFiles();
        SealedStore store = open(files);
        Map<Integer, Map<String, String>> states = new TreeMap<>();
        states.put(0, contents(store));
        for (int i = 0; i < 4; i++) {
            store.commit(changes("n", text("value " + i), "m" + i, text("more")), false);
            states.put(files.files.get("journal-1").length, contents(store));
        }
        byte[] journal = files.files.get("journal-1");
        for (int size = 0; size <= journal.length; size++) {
            FaultyFiles cut = files.restarted();
            cut.files.put("journal-1", Arrays.copyOf(journal, size));
            Map<String, String> expected = null;
            int good = 0;
            for (Map.Entry<Integer, Map<String, String>> one : states.entrySet()) {
                if (one.getKey() <= size) {
                    expected = one.getValue();
                    good = one.getKey();
                }
            }
            SealedStore found = open(cut);
            assertEquals(expected, contents(found), "cut at " + size);
            assertEquals(good, cut.files.get("journal-1").length, "the torn tail is cut off");
            found.commit(changes("after", text("!")), true);
            assertEquals("21", contents(open(cut.restarted())).get("after"));
        }
    }

    @Test
    void aFlippedBitInARecordThatWasSyncedIsDamageInTheLastOneToo() {
        FaultyFiles files = new FaultyFiles();
        SealedStore store = open(files);
        store.commit(changes("ledger", text("one")), true);
        store.commit(changes("ledger", text("two")), true);
        byte[] journal = files.files.get("journal-1");
        for (int at = 0; at < journal.length; at++) {
            FaultyFiles flipped = files.restarted();
            byte[] changed = journal.clone();
            changed[at] ^= 4;
            flipped.files.put("journal-1", changed);
            assertEquals(Kind.STORE_DAMAGED, kindOf(flipped), "byte " + at);
            assertArrayEquals(changed, flipped.files.get("journal-1"), "nothing was changed");
        }
    }

    /** The attack: "withdrawn, 100 rounds" becomes "consented, 0" without any key. */
    @Test
    void aStoreWhoseLastDurableRecordsWereCutOffIsDamaged() {
        FaultyFiles files = new FaultyFiles();
        SealedStore store = open(files);
        store.commit(changes("consent", text("given"), "ledger", text("0")), true);
        store.commit(changes("ledger", text("100")), true);
        store.commit(changes("consent", text("withdrawn")), true);
        byte[] journal = files.files.get("journal-1");
        for (int size = 0; size < journal.length; size++) {
            FaultyFiles cut = files.restarted();
            cut.files.put("journal-1", Arrays.copyOf(journal, size));
            assertEquals(Kind.STORE_DAMAGED, kindOf(cut), "cut at " + size);
        }
        FaultyFiles gone = files.restarted();
        gone.files.remove("journal-1");
        assertEquals(Kind.STORE_DAMAGED, kindOf(gone));
        assertEquals(contents(store), contents(open(files.restarted())));
    }

    @Test
    void recordsThatWereReadOnceAreNotCutOffLater() {
        FaultyFiles files = new FaultyFiles();
        open(files).commit(changes("event/1", text("not synced")), false);
        FaultyFiles read = files.restarted();
        open(read).close();
        FaultyFiles cut = read.restarted();
        cut.files.put("journal-1", new byte[0]);
        assertEquals(Kind.STORE_DAMAGED, kindOf(cut));
    }

    @Test
    void aRootThatIsGoneChangedOrAheadOfTheSnapshotIsDamage() {
        FaultyFiles files = new FaultyFiles();
        SealedStore store = open(files);
        store.commit(changes("consent", text("given")), true);
        FaultyFiles earlier = files.restarted();
        store.forget(changes("consent", text("withdrawn")));
        FaultyFiles back = files.restarted(); // the snapshot and journal of before, the root of now
        back.files.put("snapshot", earlier.files.get("snapshot"));
        back.files.put("journal-1", earlier.files.get("journal-1"));
        assertEquals(Kind.STORE_DAMAGED, kindOf(back));
        FaultyFiles gone = files.restarted();
        gone.files.remove("root");
        assertEquals(Kind.STORE_DAMAGED, kindOf(gone));
        for (int at = 0; at < files.files.get("root").length; at++) {
            FaultyFiles flipped = files.restarted();
            byte[] root = files.files.get("root").clone();
            root[at] ^= 1;
            flipped.files.put("root", root);
            assertEquals(Kind.STORE_DAMAGED, kindOf(flipped), "byte " + at);
        }
        FaultyFiles called = files.restarted(); // a store from before there were roots
        byte[] snapshot = files.files.get("snapshot").clone();
        snapshot[7] = 1;
        called.files.put("snapshot", snapshot);
        called.files.remove("root");
        assertEquals(Kind.STORE_DAMAGED, kindOf(called));
    }

    @Test
    void aStoreFromBeforeThereWereRootsGetsOneWheneverItsProcessDies() throws IOException {
        FaultyFiles old = new FaultyFiles();
        Snapshot head = new Snapshot(Snapshot.ROOTLESS, new byte[16], 3);
        Sealer sealer = new Sealer(KEY.key(true), head.storeName);
        Map<String, Object> values = new LinkedHashMap<>();
        values.put("a", text("value"));
        Snapshot.write(old, head, sealer, values);
        values.put("a", text("newer"));
        old.append("journal-3", Journal.record(sealer, 3, 0, 0, Changes.encode(values)));
        old.sync("journal-3");
        for (int death = 1; ; death++) {
            FaultyFiles files = old.restarted();
            files.failAt = death;
            files.dead = true;
            try {
                open(files);
            } catch (FedRapException error) {
                assertEquals(Kind.STORE_DAMAGED, error.kind());
            }
            for (FaultyFiles left : new FaultyFiles[] {files.restarted(), files.afterPowerLoss()}) {
                assertArrayEquals(text("newer"), open(left).get("a"), "death at " + death);
                assertEquals(Snapshot.SCHEMA, left.files.get("snapshot")[7]);
                left.files.remove("root");
                assertEquals(Kind.STORE_DAMAGED, kindOf(left));
            }
            if (files.calls < death) {
                assertTrue(death > 8, "there were operations to die at");
                break;
            }
        }
    }

    @Test
    void recordsThatWereNotSyncedMayGoInAnyOrderWithALossOfPower() {
        FaultyFiles files = new FaultyFiles();
        SealedStore store = open(files);
        store.commit(changes("a", text("synced")), true);
        int first = files.files.get("journal-1").length;
        Map<String, String> before = contents(store);
        store.commit(changes("a", text("lost")), false);
        int second = files.files.get("journal-1").length;
        store.commit(changes("a", text("there, but behind what was lost")), false);
        byte[] journal = files.files.get("journal-1");
        Arrays.fill(journal, first, second, (byte) 0);
        assertEquals(before, contents(open(files.restarted())));
    }

    @Test
    void aFlippedBitInTheSnapshotIsSeen() {
        FaultyFiles files = new FaultyFiles();
        SealedStore store = open(files);
        store.forget(changes("a", text("value"), "b", text("another")));
        byte[] snapshot = files.files.get("snapshot");
        for (int at = 0; at < snapshot.length; at++) {
            FaultyFiles flipped = files.restarted();
            byte[] changed = snapshot.clone();
            changed[at] ^= 1;
            flipped.files.put("snapshot", changed);
            Kind kind = kindOf(flipped);
            assertTrue(kind == Kind.STORE_DAMAGED || kind == Kind.STORE_LOCKED, "byte " + at);
        }
        for (int size = 0; size < snapshot.length; size++) {
            FaultyFiles cut = files.restarted();
            cut.files.put("snapshot", Arrays.copyOf(snapshot, size));
            assertEquals(Kind.STORE_DAMAGED, kindOf(cut), "cut at " + size);
        }
    }

    @Test
    void anotherKeyIsToldApartFromDamageAndChangesNothing() {
        FaultyFiles files = new FaultyFiles();
        open(files).commit(changes("a", text("value")), true);
        FaultyFiles again = files.restarted();
        FedRapException error =
                assertThrows(
                        FedRapException.class, () -> SealedStore.open(again, null, new FixedKey(8)));
        assertEquals(Kind.STORE_LOCKED, error.kind());
        assertEquals(0, again.calls);
        assertArrayEquals(text("value"), open(again).get("a"));
    }

    @Test
    void aBlobThatIsGoneOrChangedIsSeen() {
        FaultyFiles files = new FaultyFiles();
        open(files).commit(changes("big", large(3)), true);
        FaultyFiles gone = files.restarted();
        String blob = files.files.keySet().stream().filter(n -> n.startsWith("blob-")).findAny().get();
        gone.files.remove(blob);
        assertEquals(Kind.STORE_DAMAGED, kindOf(gone));
        FaultyFiles changed = files.restarted();
        changed.files.get(blob)[500] ^= 1;
        SealedStore store = open(changed);
        assertEquals(
                Kind.STORE_DAMAGED,
                assertThrows(FedRapException.class, () -> store.get("big")).kind());
    }

    /** A process that dies at each of its file operations, with any part of a write done. */
    @Test
    void aCrashAtAnyFileOperationLeavesTheOldStateOrTheNewOne() {
        for (int written : new int[] {-1, 0, 1, 30, 1 << 20}) {
            for (int death = 1; ; death++) {
                FaultyFiles files = new FaultyFiles();
                SealedStore store = open(files);
                store.commit(changes("a", text("old"), "big", large(1)), true);
                Map<String, String> before = contents(store);
                files.failAt = files.calls + death;
                files.written = written;
                files.dead = true;
                int last = files.calls;
                Map<String, String> after = new TreeMap<>(before);
                after.put("a", Bytes.hex(text("new")));
                after.put("big", Bytes.hex(large(2)));
                try {
                    store.forget(changes("a", text("new"), "big", large(2)));
                } catch (FedRapException error) {
                    assertEquals(Kind.STORE_DAMAGED, error.kind());
                }
                for (FaultyFiles left : new FaultyFiles[] {files.restarted(), files.afterPowerLoss()}) {
                    Map<String, String> found = contents(open(left));
                    assertTrue(found.equals(before) || found.equals(after), "death at " + death);
                    assertEquals(1, left.files.keySet().stream().filter(n -> n.startsWith("blob-")).count());
                    assertEquals(found, contents(open(left.restarted())));
                }
                if (files.calls < files.failAt) {
                    assertTrue(files.calls - last > 8, "there were operations to die at");
                    assertEquals(after, contents(open(files.afterPowerLoss())));
                    break;
                }
            }
        }
    }

    /** A disk that is full once: the commit is refused, the state is the old one, and work goes on. */
    @Test
    void aFullDiskLeavesTheOldStateInMemoryAndInTheFiles() {
        for (int written : new int[] {-1, 0, 20, 1 << 20}) {
            for (int full = 1; full < 20; full++) {
                FaultyFiles files = new FaultyFiles();
                SealedStore store = open(files);
                store.commit(changes("a", text("old"), "big", large(1)), true);
                Map<String, String> before = contents(store);
                files.failAt = files.calls + full;
                files.written = written;
                boolean refused = false;
                try {
                    store.commit(changes("a", text("new"), "big", large(2)), true);
                } catch (FedRapException error) {
                    refused = true;
                    assertEquals(Kind.STORE_DAMAGED, error.kind());
                    assertTrue(error.getMessage().contains("nothing was changed"));
                }
                if (refused) {
                    assertEquals(before, contents(store));
                    assertEquals(before, contents(open(files.restarted())));
                }
                files.failAt = Integer.MAX_VALUE; // there is room again
                store.commit(changes("c", text("later")), true);
                assertEquals(contents(store), contents(open(files.afterPowerLoss())));
            }
        }
    }

    @Test
    void aJournalIsFoldedIntoTheSnapshotSoTheStoreStaysSmall() {
        FaultyFiles files = new FaultyFiles();
        SealedStore store = open(files);
        byte[] value = new byte[1000];
        for (int i = 0; i < 3000; i++) {
            store.commit(changes("same", value, "n" + i % 7, value), false);
        }
        int size = files.files.values().stream().mapToInt(raw -> raw.length).sum();
        assertTrue(size < 2 * SealedStore.LONG_JOURNAL, size + " bytes");
        assertEquals(contents(store), contents(open(files.restarted())));
    }

    @Test
    void aSnapshotThatCannotBeWrittenCostsNothing() {
        FaultyFiles files = new FaultyFiles();
        SealedStore store = open(files);
        store.commit(changes("a", text("old")), true);
        for (int fail = 1; fail < 8; fail++) {
            files.failAt = files.calls + 2 + fail; // behind append and sync
            store.forget(changes("a", text("value " + fail)));
            files.failAt = Integer.MAX_VALUE;
            store.commit(changes("b", text("value " + fail)), true);
            assertEquals(contents(store), contents(open(files.restarted())));
            assertEquals(contents(store), contents(open(files.afterPowerLoss())));
        }
    }

    @Test
    void oneWriterAtATime(@TempDir File folder) {
        KeyFile key = new KeyFile(new File(folder, KeyFile.NAME));
        SealedStore store = SealedStore.open(folder, key);
        FedRapException error =
                assertThrows(FedRapException.class, () -> SealedStore.open(folder, key));
        assertEquals(Kind.STORE_BUSY, error.kind());
        store.close();
        store.close();
        assertEquals(
                Kind.STORE_CLOSED,
                assertThrows(FedRapException.class, () -> store.get("a")).kind());
        SealedStore.open(folder, key).close();
    }

    @Test
    void onlyTheOwnerReadsTheFiles(@TempDir File folder) throws Exception {
        SealedStore store = SealedStore.open(folder, new KeyFile(new File(folder, KeyFile.NAME)));
        store.commit(changes("a", text("b"), "big", large(1)), true);
        store.close();
        for (String name : folder.list()) {
            if (!name.equals(StoreLock.NAME)) { // which says nothing
                java.util.Set<?> modes =
                        java.nio.file.Files.getPosixFilePermissions(new File(folder, name).toPath());
                assertEquals(2, modes.size(), name + " " + modes);
            }
        }
    }

    @Test
    void aLostKeyIsSaidAndNoOtherIsMade(@TempDir File folder) {
        File file = new File(folder, KeyFile.NAME);
        SealedStore.open(folder, new KeyFile(file)).close();
        assertTrue(file.delete());
        FedRapException error =
                assertThrows(
                        FedRapException.class, () -> SealedStore.open(folder, new KeyFile(file)));
        assertEquals(Kind.STORE_LOCKED, error.kind());
        assertFalse(file.exists());
    }

    @Test
    void destroyingDeletesTheKeyFirstAndLeavesFilesOfOthers(@TempDir File folder) throws Exception {
        assertTrue(new File(folder, "notes.txt").createNewFile());
        SealedStore store = SealedStore.open(folder, new KeyFile(new File(folder, KeyFile.NAME)));
        store.commit(changes("a", text("b"), "big", large(1)), true);
        assertEquals("key", store.destroy().get(0));
        assertArrayEquals(new String[] {"notes.txt"}, folder.list());
    }

    @Test
    void aSnapshotOfANewerVersionIsLeftAlone() {
        FaultyFiles files = new FaultyFiles();
        open(files).commit(changes("a", text("b")), true);
        files.files.get("snapshot")[7] = Snapshot.SCHEMA + 1;
        FaultyFiles newer = files.restarted();
        assertEquals(Kind.STORE_DAMAGED, kindOf(newer));
        assertEquals(0, newer.calls);
    }
}
