package io.fedrap.android;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fedrap.core.ModuleShape;
import java.io.File;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;

/** What android shows and needs, and what its manifest asks of an app. */
class AndroidModuleTest {
    private static final String ANDROID = "http://schemas.android.com/apk/res/android";
    private static final String TOOLS = "http://schemas.android.com/tools";

    private static Element manifest() throws Exception {
        DocumentBuilderFactory factory = DocumentBuilderFactory.newInstance();
        factory.setNamespaceAware(true);
        File file = new File("src/main/AndroidManifest.xml");
        return factory.newDocumentBuilder().parse(file).getDocumentElement();
    }

    private static Element only(Element parent, String tag) {
        NodeList found = parent.getElementsByTagName(tag);
        assertEquals(1, found.getLength(), tag);
        return (Element) found.item(0);
    }

    @Test
    void theApiIsAsCommitted() throws Exception {
        ModuleShape.assertApiIsAsCommitted();
    }

    @Test
    void itNeedsCoreAndTheFrameworkAlone() {
        ModuleShape.assertNeedsOnly(
                "io.fedrap", "android", "java.io", "java.lang", "java.nio.charset", "java.security",
                "java.util", "javax.crypto");
    }

    @Test
    void theServiceIsThereAndOnlyTheSystemStartsIt() throws Exception {
        Element service = only(manifest(), "service");
        String name = service.getAttributeNS(ANDROID, "name");
        assertEquals(RoundJobService.class.getName(), name);
        assertEquals(
                "android.permission.BIND_JOB_SERVICE", service.getAttributeNS(ANDROID, "permission"));
        assertEquals("false", service.getAttributeNS(ANDROID, "exported"));
    }

    @Test
    void itAsksForThreePermissionsThatNoUserIsAskedFor() throws Exception {
        NodeList asked = manifest().getElementsByTagName("uses-permission");
        Set<String> names = new HashSet<>();
        for (int i = 0; i < asked.getLength(); i++) {
            names.add(((Element) asked.item(i)).getAttributeNS(ANDROID, "name"));
        }
        assertEquals(
                new HashSet<>(
                        Arrays.asList(
                                "android.permission.INTERNET",
                                "android.permission.ACCESS_NETWORK_STATE",
                                "android.permission.RECEIVE_BOOT_COMPLETED")),
                names);
    }

    @Test
    void theTelemetryOfTheRuntimeIsRemoved() throws Exception {
        Element provider = only(manifest(), "provider");
        assertEquals(
                "ai.onnxruntime.TelemetryInitializer", provider.getAttributeNS(ANDROID, "name"));
        assertEquals("remove", provider.getAttributeNS(TOOLS, "node"));
    }

    @Test
    void theRulesNameClassesThatAreThere() throws Exception {
        String rules = new String(Files.readAllBytes(new File("consumer-rules.pro").toPath()), "UTF-8");
        Matcher names = Pattern.compile("class (io\\.fedrap[.\\w]+)").matcher(rules);
        assertTrue(names.find());
        do {
            assertEquals(names.group(1), Class.forName(names.group(1)).getName());
        } while (names.find());
        assertFalse(rules.contains("-dontobfuscate") || rules.contains("**"), "an app pays for it");
    }
}
