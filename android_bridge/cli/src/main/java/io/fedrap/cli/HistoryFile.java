package io.fedrap.cli;

import io.fedrap.core.Interaction;
import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * A history as a CSV file: item[,weight][,timestamp][,kind], one interaction a line, as in Python.
 *
 * <p>Read whole and checked before anything is kept, so that a broken line costs nothing but a
 * sentence with its number. Columns that are not known are left alone; fields may stand in quotes.
 */
final class HistoryFile {
    private static final double LATEST = 4_102_444_800.0; // 2100; above it a number is not of seconds
    private static final List<List<String>> ALIASES =
            Arrays.asList(
                    Arrays.asList("item", "item_id", "itemid"),
                    Arrays.asList("weight", "rating"),
                    Arrays.asList("timestamp", "at", "time", "datetime"),
                    Arrays.asList("kind", "event", "type"),
                    Arrays.asList("user", "user_id", "userid"));

    private final int[] columns = {-1, -1, -1, -1, -1}; // as in ALIASES
    private final char delimiter;
    private final int width;
    private String user;

    private HistoryFile(String header) {
        char best = ',';
        for (char one : new char[] {';', '\t'}) {
            best = count(header, one) > count(header, best) ? one : best;
        }
        delimiter = best;
        List<String> names = cells(header, 1);
        width = names.size();
        for (int place = 0; place < width; place++) {
            for (int meaning = 0; meaning < columns.length; meaning++) {
                if (ALIASES.get(meaning).contains(names.get(place).toLowerCase(Locale.ROOT))) {
                    if (columns[meaning] >= 0) {
                        throw broken(1, "two columns for " + ALIASES.get(meaning).get(0));
                    }
                    columns[meaning] = place;
                }
            }
        }
        if (columns[0] < 0) {
            throw broken(1, "the header has no column item, item_id or itemId");
        }
    }

    /**
     * The interactions of a file; a line without a time happened now.
     *
     * @throws IllegalArgumentException a line is broken, or the file is of several users.
     */
    static List<Interaction> read(File file) throws IOException {
        byte[] raw = Files.readAllBytes(file.toPath());
        String text;
        try {
            text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(raw)).toString();
        } catch (CharacterCodingException error) {
            throw new IllegalArgumentException("the text is not UTF-8; nothing was imported", error);
        }
        String[] lines = (text.startsWith("\ufeff") ? text.substring(1) : text).split("\r?\n");
        HistoryFile table = null;
        List<Interaction> found = new ArrayList<>();
        for (int i = 0; i < lines.length; i++) {
            if (lines[i].trim().isEmpty()) {
                continue;
            }
            if (table == null) {
                table = new HistoryFile(lines[i]);
            } else {
                found.add(table.interaction(lines[i], i + 1));
            }
        }
        if (table == null) {
            throw broken(1, "the file is empty; the first line names the columns");
        }
        return found;
    }

    private Interaction interaction(String text, int line) {
        List<String> cells = cells(text, line);
        if (cells.size() != width) {
            throw broken(line, cells.size() + " columns where the header has " + width);
        }
        String whose = cell(cells, 4);
        if (user != null && !user.equals(whose)) {
            throw broken(line, "another user; a store holds the history of one");
        }
        user = whose;
        String weight = cell(cells, 1);
        String kind = cell(cells, 3);
        try {
            double meant = weight.isEmpty() ? 1.0 : Double.parseDouble(weight);
            return new Interaction(
                    cell(cells, 0), kind.isEmpty() ? "view" : kind, meant, time(cell(cells, 2), line));
        } catch (NumberFormatException error) {
            throw broken(line, "the weight " + weight + " is not a number");
        } catch (IllegalArgumentException error) {
            throw error.getMessage().startsWith("line ") ? error : broken(line, error.getMessage());
        }
    }

    private String cell(List<String> cells, int meaning) {
        return columns[meaning] < 0 ? "" : cells.get(columns[meaning]);
    }

    /** Seconds since 1970, or a date as in ISO 8601; without a zone it is UTC. */
    private static double time(String text, int line) {
        if (text.isEmpty()) {
            return Double.NaN;
        }
        double seconds;
        try {
            seconds = Double.parseDouble(text);
        } catch (NumberFormatException notANumber) {
            seconds = date(text.replace(' ', 'T'), line);
        }
        if (!(seconds >= 0 && seconds <= LATEST)) {
            throw broken(line, "the time " + text + " is not between 1970 and 2100; are these milliseconds?");
        }
        return seconds;
    }

    private static double date(String text, int line) {
        try {
            if (text.length() == 10) {
                return LocalDate.parse(text).toEpochDay() * 86_400.0;
            }
            boolean zoned = text.endsWith("Z") || text.matches(".*[+-]\\d\\d:\\d\\d");
            return zoned
                    ? OffsetDateTime.parse(text).toEpochSecond()
                    : LocalDateTime.parse(text).toEpochSecond(ZoneOffset.UTC);
        } catch (DateTimeException error) {
            throw broken(line, "the time " + text + " is neither seconds since 1970 nor an ISO 8601 date");
        }
    }

    /** The fields of a line; within quotes a delimiter is a character, and two quotes are one. */
    private List<String> cells(String line, int number) {
        List<String> found = new ArrayList<>();
        StringBuilder cell = new StringBuilder();
        boolean quoted = false;
        for (int i = 0; i < line.length(); i++) {
            char c = line.charAt(i);
            if (c == '"' && quoted && i + 1 < line.length() && line.charAt(i + 1) == '"') {
                cell.append(c);
                i++;
            } else if (c == '"') {
                quoted = !quoted;
            } else if (c == delimiter && !quoted) {
                found.add(cell.toString().trim());
                cell.setLength(0);
            } else {
                cell.append(c);
            }
        }
        if (quoted) {
            throw broken(number, "a quote without an end");
        }
        found.add(cell.toString().trim());
        return found;
    }

    private static int count(String text, char wanted) {
        int found = 0;
        for (char one : text.toCharArray()) {
            found += one == wanted ? 1 : 0;
        }
        return found;
    }

    private static IllegalArgumentException broken(int line, String wrong) {
        return new IllegalArgumentException("line " + line + ": " + wrong + "; nothing was imported");
    }
}
