package io.fedrap.cli;

import io.fedrap.core.Conditions;
import io.fedrap.core.Config;
import io.fedrap.core.Diagnosis;
import io.fedrap.core.Erased;
import io.fedrap.core.Exported;
import io.fedrap.core.FedRap;
import io.fedrap.core.FedRapException;
import io.fedrap.core.Reason;
import io.fedrap.core.Recommendation;
import io.fedrap.core.Wish;
import io.fedrap.core.RoundReport;
import io.fedrap.core.Status;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** A device on the command line: the same library as in an app, without a phone. */
public final class DeviceCommand {
    private static final String HELP =
            "java -jar fedrap-cli.jar COMMAND [OPTIONS]\n\n"
                    + "  join [URL]      take part in one round of the coordinator at URL\n"
                    + "      --agree           the user agrees to train; nothing is sent before\n"
                    + "      --token TOKEN     one-time enrolment token (FEDRAP_TOKEN)\n"
                    + "      --history FILE    a CSV file first: item[,weight][,timestamp][,kind]\n"
                    + "      --wait SECONDS    for a place, where there is none at once\n"
                    + "      --recommend N     the best items afterwards\n"
                    + "      --policy WORDS    which text was agreed to\n"
                    + "      --allow-http      speak without TLS to another machine\n"
                    + "      --no-privacy      join rounds that promise no privacy, too\n"
                    + "  recommend       the best items for this user; -n 10, --explain\n"
                    + "  status          where this device stands\n"
                    + "  doctor          what is wrong with a store that does not open or lost something\n"
                    + "      --repair          make one that opens of what is left\n"
                    + "  export FILE     everything that is known of this user\n"
                    + "  erase --yes     delete the store and its key, and leave the coordinator\n\n"
                    + "  --store FOLDER  where it is kept (FEDRAP_STORE; ~/.local/share/fedrap-java)\n";
    private static final Map<String, String> ADVICE = new HashMap<>();

    static {
        ADVICE.put("no-consent", "the user has not agreed: --agree");
        ADVICE.put("no-server", "no coordinator is named: join URL");
        ADVICE.put("no-token", "this device is not enrolled: give --token");
        ADVICE.put("nothing-to-share", "nothing is recorded yet that the coordinator knows");
        ADVICE.put("told-to-wait", "the coordinator asked to come back later");
        ADVICE.put("unreachable", "the coordinator does not answer");
    }

    private final Arguments arguments;
    private final PrintStream out;
    private final File store;
    private final File memory; // of the address, which is no secret

    private DeviceCommand(Arguments arguments, PrintStream out) {
        this.arguments = arguments;
        this.out = out;
        String named = arguments.value("--store", "FEDRAP_STORE");
        String home = System.getProperty("user.home") + "/.local/share/fedrap-java";
        this.store = new File(named == null ? home : named);
        this.memory = new File(store, "server.txt");
    }

    /** 0 is good, 1 means that no round was joined, 2 that something is wrong. */
    public static void main(String[] given) {
        System.exit(run(given, System.out, System.err));
    }

    static int run(String[] given, PrintStream out, PrintStream wrong) {
        try {
            Arguments arguments = new Arguments(given);
            if (arguments.command.equals("help")) {
                out.print(HELP);
                return 2;
            }
            return new DeviceCommand(arguments, out).run();
        } catch (FedRapException | IllegalArgumentException | IOException error) {
            wrong.println("fedrap: " + error.getMessage());
            return 2;
        }
    }

    private int run() throws IOException {
        Config config =
                new Config(store)
                        .allowHttp(arguments.has("--allow-http"))
                        .server(server())
                        .token(arguments.value("--token", "FEDRAP_TOKEN"));
        if (arguments.has("--no-privacy")) {
            config.withoutPrivacy(2);
        }
        switch (arguments.command) {
            case "join":
                try (FedRap device = FedRap.open(config)) {
                    return join(device);
                }
            case "recommend":
                try (FedRap device = FedRap.open(config)) {
                    return recommend(device, (int) arguments.number("-n", 10));
                }
            case "status":
                try (FedRap device = FedRap.open(config)) {
                    return status(device.status());
                }
            case "export":
                try (FedRap device = FedRap.open(config)) {
                    return export(device);
                }
            case "doctor":
                return doctor(config);
            case "erase":
                return erase(config);
            default:
                throw new IllegalArgumentException(arguments.command + " is no command\n\n" + HELP);
        }
    }

    /** The address that was given, or that an earlier `join` was given. */
    private String server() throws IOException {
        String given = arguments.command.equals("join") ? arguments.word() : null;
        if (given != null) {
            return given;
        }
        return memory.exists()
                ? new String(Files.readAllBytes(memory.toPath()), StandardCharsets.UTF_8).trim()
                : null;
    }

    private int join(FedRap device) throws IOException {
        if (arguments.word() != null) {
            Files.write(memory.toPath(), Collections.singletonList(arguments.word()));
        }
        String history = arguments.value("--history", "");
        if (history != null) {
            int count = device.recordMany(HistoryFile.read(new File(history)));
            out.println("Imported " + count + ", " + device.status().interactions + " in all.");
        }
        if (arguments.has("--agree")) {
            String policy = arguments.value("--policy", "");
            device.consent(true, policy == null ? "cli" : policy);
        }
        RoundReport report = device.runRound(arguments.number("--wait", 0), Conditions.ALWAYS);
        if (report.joined) {
            out.println("Joined: " + report.sentBytes + " bytes, sealed.");
        } else {
            out.println("Not joined: " + why(report.blockedBy) + ".");
            if (report.retryAfter != null) {
                out.println(String.format(Locale.ROOT, "Come back in %.0f s.", report.retryAfter));
            }
        }
        if (arguments.has("--recommend")) {
            recommend(device, (int) arguments.number("--recommend", 10));
        }
        return report.joined ? 0 : 1;
    }

    private int recommend(FedRap device, int n) {
        List<Recommendation> found = device.recommend(new Wish(n).explain(arguments.has("--explain")));
        for (Recommendation one : found) {
            out.println(String.format(Locale.ROOT, "%+.3f  %s", one.score, one.item));
            for (Reason why : one.reasons.subList(0, Math.min(3, one.reasons.size()))) {
                double part = why.shared + why.personal;
                out.println(String.format(Locale.ROOT, "          %+.3f from %s", part, why.item));
            }
        }
        if (found.isEmpty()) {
            out.println("Nothing yet: this device has no catalogue.");
        }
        return 0;
    }

    private int status(Status one) {
        String epsilon =
                Double.isInfinite(one.epsilon)
                        ? "unbounded"
                        : String.format(Locale.ROOT, "%.2f", one.epsilon);
        out.println("interactions  " + one.interactions);
        out.println("consent       " + (one.consented ? "yes" : "no"));
        out.println("release       " + (one.release == null ? "none" : one.release));
        out.println("rounds        " + one.rounds + ", epsilon " + epsilon);
        out.println("to be sent    " + one.pending);
        out.println("a round now   " + (one.blockedBy == null ? "may run" : why(one.blockedBy)));
        return 0;
    }

    /** Needs no store that opens. */
    private int doctor(Config config) {
        boolean repair = arguments.has("--repair");
        Diagnosis found = repair ? FedRap.repair(config) : FedRap.examine(config);
        out.println("opens         " + (found.opens ? "yes" : "no"));
        if (found.opens) {
            out.println("interactions  " + found.interactions);
        }
        for (String one : found.findings) {
            out.println("wrong         " + one);
        }
        if (found.findings.isEmpty()) {
            out.println("wrong         nothing");
        }
        if (found.ledgerLost) {
            out.println("ledger        a part is lost, so this device joins no more rounds; erase it");
            out.println("              and enrol anew to take part again");
        }
        if (!found.opens && !repair) {
            out.println("Try doctor --repair; the files are kept as they are beside the new.");
        }
        return found.opens ? 0 : 1;
    }

    private int export(FedRap device) throws IOException {
        if (arguments.word() == null) {
            throw new IllegalArgumentException("export needs a FILE");
        }
        Exported written = device.export(new File(arguments.word()));
        out.println(
                "Everything known of this user is in " + written.file + ", " + written.sizeBytes
                        + " bytes, readable.");
        return 0;
    }

    private int erase(Config config) throws IOException {
        if (!arguments.has("--yes")) {
            throw new IllegalArgumentException(
                    "erase deletes the history for good; say so with --yes");
        }
        Erased receipt = FedRap.open(config).erase();
        Files.deleteIfExists(memory.toPath());
        out.println("Erased: " + String.join(", ", receipt.deleted));
        out.println(
                receipt.coordinatorConfirmed
                        ? "The coordinator has forgotten this device."
                        : "Not confirmed by the coordinator: " + why(receipt.notConfirmedBecause));
        out.println(receipt.note);
        return 0;
    }

    private static String why(String word) {
        return ADVICE.getOrDefault(word, word);
    }
}
