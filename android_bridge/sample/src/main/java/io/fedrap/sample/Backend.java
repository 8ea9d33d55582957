package io.fedrap.sample;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;

/** The app's own server, which knows its users and gives each device one enrolment token. */
final class Backend {
    private static final String ADDRESS = "https://shop.example.org/fedrap-token";

    private Backend() {}

    /** Called in the thread of a round, once per device. */
    static String token() throws IOException {
        HttpURLConnection connection = (HttpURLConnection) new URL(ADDRESS).openConnection();
        connection.setConnectTimeout(15_000);
        connection.setReadTimeout(15_000);
        connection.setRequestMethod("POST"); // with the session of the user who is signed in
        InputStreamReader text =
                new InputStreamReader(connection.getInputStream(), StandardCharsets.UTF_8);
        try (BufferedReader lines = new BufferedReader(text)) {
            return lines.readLine();
        } finally {
            connection.disconnect();
        }
    }
}
