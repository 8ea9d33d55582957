package io.fedrap.core;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.Member;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * A module from outside: what it shows to apps, and what it needs. Every module's tests ask both.
 *
 * <p>Runs in the module's own folder, after its classes were compiled.
 */
public final class ModuleShape {
    private static final Path CLASSES = Paths.get("target/classes");
    private static final Path API = Paths.get("api.txt");

    private ModuleShape() {}

    /**
     * Fails when what is public is not what the module's api.txt says.
     *
     * <p>With the system property fedrap.api=write it writes api.txt instead.
     */
    public static void assertApiIsAsCommitted() throws Exception {
        String now = publicApi();
        if ("write".equals(System.getProperty("fedrap.api"))) {
            Files.write(API, now.getBytes(StandardCharsets.UTF_8));
        }
        String committed = Files.exists(API) ? Files.readString(API) : "";
        assertEquals(
                committed,
                now,
                "the public API is not what api.txt says; where that is meant, write it anew with"
                        + " `mvn verify -Dfedrap.api=write` and say so in the CHANGELOG");
    }

    /** Fails when the module's classes use a package that is not of one of these beginnings. */
    public static void assertNeedsOnly(String... allowed) {
        Set<String> strange = new TreeSet<>();
        for (String used : usedPackages()) {
            if (Arrays.stream(allowed).noneMatch(a -> used.equals(a) || used.startsWith(a + "."))) {
                strange.add(used);
            }
        }
        assertTrue(strange.isEmpty(), "this module must not need " + strange);
    }

    /** Every public or protected class and member, one line each, in order. */
    static String publicApi() throws Exception {
        StringBuilder out = new StringBuilder();
        for (String name : classNames()) {
            Class<?> one = Class.forName(name, false, ModuleShape.class.getClassLoader());
            if (!shown(one)) {
                continue;
            }
            out.append(head(one)).append('\n');
            Stream.of(one.getDeclaredConstructors(), one.getDeclaredFields(), one.getDeclaredMethods())
                    .flatMap(Arrays::stream)
                    .filter(m -> visible(((Member) m).getModifiers()) && !((Member) m).isSynthetic())
                    .map(member -> line(one, member))
                    .sorted()
                    .forEach(line -> out.append("    ").append(line).append('\n'));
        }
        return out.toString();
    }

    private static boolean shown(Class<?> one) {
        for (Class<?> at = one; at != null; at = at.getDeclaringClass()) {
            if (!visible(at.getModifiers())) {
                return false;
            }
        }
        return !one.isAnonymousClass() && !one.isSynthetic();
    }

    private static boolean visible(int modifiers) {
        return Modifier.isPublic(modifiers) || Modifier.isProtected(modifiers);
    }

    private static String head(Class<?> one) {
        Class<?> parent = one.getSuperclass();
        String above = parent == null || parent == Object.class ? "" : " extends " + parent.getName();
        String faces =
                Arrays.stream(one.getGenericInterfaces())
                        .map(face -> face.getTypeName())
                        .collect(Collectors.joining(", "));
        return one.toGenericString() + above + (faces.isEmpty() ? "" : " implements " + faces);
    }

    /** The member without packages, which a reader of the list knows, and without its class. */
    private static String line(Class<?> owner, AnnotatedElement member) {
        String whole =
                member instanceof Field
                        ? ((Field) member).toGenericString()
                        : ((Executable) member).toGenericString();
        return whole.replace(owner.getName() + ".", "").replaceAll("([a-z]+\\.)+(?=[A-Z])", "");
    }

    private static List<String> classNames() throws IOException {
        try (Stream<Path> files = Files.walk(CLASSES)) {
            List<String> names = new ArrayList<>();
            files.map(file -> CLASSES.relativize(file).toString())
                    .filter(file -> file.endsWith(".class"))
                    .map(file -> file.substring(0, file.length() - 6).replaceAll("[/\\\\]", "."))
                    .forEach(names::add);
            names.sort(null);
            return names;
        }
    }

    private static Set<String> usedPackages() {
        ToolProvider jdeps = ToolProvider.findFirst("jdeps").orElseThrow();
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream out = new PrintStream(said);
        int status = jdeps.run(out, out, "-verbose:package", "-filter:none", CLASSES.toString());
        String text = said.toString();
        assertEquals(0, status, text);
        Set<String> used = new TreeSet<>();
        Matcher lines = Pattern.compile("(?m)^ +\\S+ +-> (\\S+) ").matcher(text);
        while (lines.find()) {
            used.add(lines.group(1));
        }
        assertTrue(used.contains("java.lang"), text);
        return used;
    }
}
