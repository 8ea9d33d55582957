package io.fedrap.sample;

import android.app.Activity;
import android.os.Bundle;
import android.widget.ArrayAdapter;
import android.widget.Button;
import android.widget.LinearLayout;
import android.widget.ListView;
import android.widget.Switch;
import android.widget.TextView;
import io.fedrap.android.FedRapAndroid;
import io.fedrap.android.RoundStatus;
import io.fedrap.core.FedRap;
import io.fedrap.core.FedRapException;
import io.fedrap.core.Recommendation;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** A list of items to tap, a switch for consent, and what is recommended. */
public class MainActivity extends Activity {
    static final String POLICY = "2026-11"; // which text the switch stands for

    private final ExecutorService worker = Executors.newSingleThreadExecutor(); // one call at a time
    private FedRap fr; // of the worker
    Switch consent;
    Button recommend;
    ListView items;
    TextView status;

    @Override
    protected void onCreate(Bundle state) {
        super.onCreate(state);
        consent = new Switch(this);
        consent.setText("Learn with others: only sealed, summed-up statistics leave this phone");
        recommend = new Button(this);
        recommend.setText("Recommend");
        items = new ListView(this);
        items.setAdapter(new ArrayAdapter<>(this, android.R.layout.simple_list_item_1, catalogue()));
        status = new TextView(this);
        LinearLayout all = new LinearLayout(this);
        all.setOrientation(LinearLayout.VERTICAL);
        all.addView(consent);
        all.addView(recommend);
        all.addView(status);
        all.addView(items);
        setContentView(all);
        worker.execute(this::open);
    }

    /** What this shop sells. */
    private static List<String> catalogue() {
        List<String> names = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            names.add("item-" + i);
        }
        return names;
    }

    private void open() {
        fr = FedRapAndroid.open(this);
        boolean agreed = fr.status().consented;
        if (agreed) {
            FedRapAndroid.schedule(this); // where the system has dropped the job, such as after "force stop"
        }
        runOnUiThread(() -> listen(agreed));
        showStatus();
    }

    private void listen(boolean agreed) {
        consent.setChecked(agreed);
        consent.setOnCheckedChangeListener((view, train) -> worker.execute(() -> agree(train)));
        items.setOnItemClickListener(
                (list, row, place, id) ->
                        worker.execute(() -> tap((String) list.getItemAtPosition(place))));
        recommend.setOnClickListener(view -> worker.execute(this::showRecommendations));
    }

    private void agree(boolean train) {
        fr.consent(train, POLICY);
        if (train) {
            FedRapAndroid.schedule(this);
            fetchFirst();
        } else {
            FedRapAndroid.cancel(this);
        }
        showStatus();
    }

    /** Else the first release would come with the first round, at night. */
    private void fetchFirst() {
        try {
            fr.sync();
        } catch (FedRapException error) {
            show("Nothing to recommend with yet: " + error.getMessage());
        }
    }

    private void tap(String item) {
        fr.record(item);
        showStatus();
    }

    private void showRecommendations() {
        StringBuilder text = new StringBuilder();
        // begin: recommend
        for (Recommendation one : fr.recommend(3)) {
            text.append(String.format(Locale.getDefault(), "%s  %+.2f%n", one.item, one.score));
        }
        // end: recommend
        show(text.length() == 0 ? "Nothing to recommend yet." : text.toString());
    }

    private void showStatus() {
        RoundStatus now = FedRapAndroid.status(this);
        show(
                now.device.interactions + " views, " + now.device.rounds + " rounds; "
                        + (now.blockedBy == null ? "waits for the system" : "no round now: " + now.blockedBy));
    }

    private void show(String text) {
        runOnUiThread(() -> status.setText(text));
    }

    @Override
    protected void onDestroy() {
        worker.shutdown(); // the recommender stays open: it is the process's
        super.onDestroy();
    }
}
