package io.fedrap.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fedrap.core.Interaction;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The commands without a network; tests/android runs them at a real coordinator. */
class DeviceCommandTest {
    @TempDir File folder;
    private String said = "";

    private int run(String... given) throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        PrintStream stream = new PrintStream(out, true, "UTF-8");
        List<String> all = new ArrayList<>(Arrays.asList(given));
        all.addAll(Arrays.asList("--store", new File(folder, "store").getPath()));
        int code = DeviceCommand.run(all.toArray(new String[0]), stream, stream);
        said = out.toString("UTF-8");
        return code;
    }

    private File csv(String text) throws IOException {
        File file = new File(folder, "history.csv");
        Files.write(file.toPath(), text.getBytes(StandardCharsets.UTF_8));
        return file;
    }

    @Test
    void nothingIsSentWithoutAgreementAndTheHistoryIsKept() throws IOException {
        String file = csv("item,weight\na,1\nb,2\n").getPath();
        assertEquals(1, run("join", "http://127.0.0.1:9", "--token", "t", "--history", file));
        assertTrue(said.contains("Imported 2, 2 in all."), said);
        assertTrue(said.contains("the user has not agreed"), said);
        assertEquals(1, run("join", "--token", "t", "--agree"), "the server is remembered");
        assertTrue(said.contains("does not answer"), said);
        assertEquals(0, run("status"));
        assertTrue(said.contains("interactions  2\nconsent       yes"), said);
        assertEquals(0, run("recommend"));
        assertTrue(said.contains("Nothing yet"), said);
        assertEquals(0, run("export", new File(folder, "mine.zip").getPath()));
        assertTrue(new File(folder, "mine.zip").length() > 100);
        assertEquals(2, run("erase"));
        assertEquals(0, run("erase", "--yes"));
        assertFalse(new File(folder, "store/app").exists());
    }

    @Test
    void aDoctorSaysWhatIsWrongAndRepairs() throws IOException {
        assertEquals(2, run("doctor"));
        assertTrue(said.contains("there is no store"), said);
        assertEquals(1, run("join", "--history", csv("item\na\nb\n").getPath()));
        assertEquals(0, run("doctor"));
        assertTrue(said.contains("opens         yes\ninteractions  2\nwrong         nothing"), said);
        File root = new File(folder, "store/app/root");
        Files.write(root.toPath(), new byte[] {1, 2, 3});
        assertEquals(2, run("status"));
        assertEquals(1, run("doctor"));
        assertTrue(said.contains("opens         no") && said.contains("--repair"), said);
        assertEquals(0, run("doctor", "--repair"));
        assertTrue(said.contains("interactions  2") && said.contains("joins no more rounds"), said);
        assertEquals(0, run("status"));
        assertTrue(said.contains("interactions  2"), said);
    }

    @Test
    void whatIsNoCommandIsSaid() throws IOException {
        assertEquals(2, run("dance"));
        assertEquals(2, run("join", "http://fed.example.org"));
        assertTrue(said.contains("https"), said);
        assertEquals(2, run("join", "--token"));
        assertEquals(2, run("status", "--fast"));
        assertEquals(2, run());
        assertTrue(said.contains("join [URL]"), said);
    }

    @Test
    void aHistoryIsReadAsInPython() throws IOException {
        List<Interaction> found =
                HistoryFile.read(
                        csv(
                                "\ufeffTitle;ITEM_ID; Rating ;at;event\n"
                                        + "\"An; a\";a;4.5;100;like\n\nB;b;;1970-01-02;\nC;\"c\"\"c\";;1970-01-02T01:00:00+01:00;\n"));
        assertEquals(3, found.size());
        assertEquals("a", found.get(0).item);
        assertEquals(4.5, found.get(0).weight);
        assertEquals("like", found.get(0).kind);
        assertEquals(86_400.0, found.get(1).at);
        assertEquals("c\"c", found.get(2).item);
        assertEquals(86_400.0, found.get(2).at);
    }

    @Test
    void aBrokenLineIsNamedAndNothingIsKept() throws IOException {
        String[][] broken = {
            {"item,weight\na,1\nb,x\n", "line 3: the weight x is not a number"},
            {"item,weight\na,0\n", "line 2: weight: a weight is a number above 0"},
            {"item,at\na,1700000000000\n", "line 2: the time 1700000000000 is not between"},
            {"item,at\na,yesterday\n", "neither seconds since 1970 nor"},
            {"item\na,b\n", "line 2: 2 columns where the header has 1"},
            {"name\na\n", "line 1: the header has no column item"},
            {"item,user\na,1\nb,2\n", "line 3: another user"},
            {"item\n\"a\n", "line 2: a quote without an end"},
            {"", "the file is empty"},
        };
        for (String[] one : broken) {
            File file = csv(one[0]);
            IllegalArgumentException error =
                    assertThrows(IllegalArgumentException.class, () -> HistoryFile.read(file));
            assertTrue(error.getMessage().contains(one[1]), error.getMessage());
            assertEquals(2, run("join", "--history", file.getPath()));
        }
        assertEquals(0, run("status"));
        assertTrue(said.contains("interactions  0"), said);
    }
}
