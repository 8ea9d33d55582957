package io.fedrap.core;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What a round may cost a device, enforced by the coordinator and again by the device. */
final class Privacy {
    final double clip; // S, the largest norm of one device's whole update
    final double rowClip; // the largest norm of one row of it, before S; NaN: none
    final double noise; // z, standard deviation of the sum's noise / S
    final double[] coefficients; // c, from 1 downwards; {1} is independent noise
    final int separation; // b, in released steps
    final long cap; // K, rounds a device joins in any window
    final double windowDays; // of such a window; 0: K is for all of a device's life
    final double spreadDays; // that K lasts: a device rests so long / K after a round; 0: it does not
    final double delta;
    final Adapt adapt; // null: S stays as it is

    /** A clip that follows a quantile of the norms; each share has one bit for it (5.6). */
    static final class Adapt {
        final double quantile; // share of updates that fit
        final double rate; // of log S in one step
        final double noise; // standard deviation of the bits' sum

        Adapt(Fields f) {
            f.only("quantile", "rate", "noise");
            quantile = f.number("quantile", 0, 1, 0.5);
            rate = f.number("rate", Double.MIN_VALUE, 2, 0.2);
            noise = f.number("noise", Double.MIN_VALUE, 1e6, 5.0);
        }

        Map<String, Object> toMap() {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("quantile", quantile);
            map.put("rate", rate);
            map.put("noise", noise);
            return map;
        }
    }

    /** Throws MALFORMED_MESSAGE, also for fields that are not known (PROTOCOL 5.1, 5.5). */
    Privacy(Fields f) {
        f.only(
                "clip", "row_clip", "noise", "coefficients", "separation", "cap", "delta", "adapt",
                "window_days", "spread_days");
        clip = f.number("clip", Double.MIN_VALUE, 1e6, 30.0);
        rowClip = f.has("row_clip") ? f.number("row_clip", Double.MIN_VALUE, 1e6) : Double.NaN;
        noise = f.number("noise", 0, 1e4, 0.0);
        separation = (int) f.integer("separation", 1, 1000, 2);
        cap = f.integer("cap", 1, 1_000_000_000, 10);
        delta = f.number("delta", Double.MIN_VALUE, Math.nextDown(1.0), 1e-5);
        windowDays = f.number("window_days", 0, 3650, 0.0);
        spreadDays = f.number("spread_days", 0, 3650, 0.0);
        adapt = f.has("adapt") ? new Adapt(f.inner("adapt")) : null;
        coefficients = coefficientsOf(f);
        if (coefficients.length > separation) {
            // More bands than b would make a device's steps overlap, and cost more than is claimed.
            throw f.refused("coefficients", "are more than the steps of separation");
        }
    }

    private static double[] coefficientsOf(Fields f) {
        double[] found = f.numbers("coefficients", 1, 64, 0, 1, new double[] {1.0});
        for (int i = 0; i < found.length; i++) {
            if (i == 0 ? found[0] < 1 : found[i] > found[i - 1]) {
                throw f.refused("coefficients", "do not fall from 1 within 0 to 1");
            }
        }
        return found;
    }

    /** The z that a device is charged with: mu = sqrt(participations)/chargedNoise (5.5). */
    double chargedNoise() {
        double bitNoise = adapt == null ? Double.NaN : adapt.noise;
        return Accounting.chargedNoise(noise, coefficients, bitNoise);
    }

    /** Charged to a device that took part K times, unamplified; infinite without noise. */
    double epsilon() {
        return Accounting.chargedEpsilon(cap, chargedNoise(), delta);
    }

    Map<String, Object> toMap() {
        List<Object> bands = new ArrayList<>();
        for (double one : coefficients) {
            bands.add(one);
        }
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("clip", clip);
        map.put("row_clip", Double.isNaN(rowClip) ? null : (Double) rowClip);
        map.put("noise", noise);
        map.put("coefficients", bands);
        map.put("separation", separation);
        map.put("cap", cap);
        map.put("delta", delta);
        map.put("adapt", adapt == null ? null : adapt.toMap());
        if (windowDays > 0) {
            map.put("window_days", windowDays);
        }
        if (spreadDays > 0) {
            map.put("spread_days", spreadDays);
        }
        return map;
    }
}
