// Numbers, times and codes as people read them. Pure: everything comes in by argument.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (n) => whole.format(n);

export const percent = (share) =>
  `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (n >= 1000 && at < units.length - 1) { n /= 1000; at += 1; }
  return `${n.toFixed(at && n < 100 ? 1 : 0)} ${units[at]}`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const s = Math.max(0, seconds);
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  if (s < 172800) return `${(s / 3600).toFixed(1)} h`;
  return `${Math.round(s / 86400)} days`;
}

export const ago = (at, now) => (now - at < 3 ? "just now" : `${span(now - at)} ago`);

export function clock(at) {
  return new Date(1000 * at).toLocaleString("en-GB", {
    day: "numeric", month: "short", hour: "2-digit", minute: "2-digit",
  });
}

export const small = (value) => (value < 1e-3 ? value.toExponential(0) : String(value));

export const epsilon = (value) => (value === null ? "∞" : value < 10 ? value.toFixed(2) : value.toFixed(1));

// Every code of fedrap_core/wire/problems.py, in words; a test compares the two.
const REASONS = {
  "no-round": "no slot is free",
  "too-soon": "took part too recently",
  "too-new": "key is too new",
  "budget-spent": "has taken part K times",
  "task-over": "all rounds were made",
  "stale-model": "held another release",
  "round-closed": "came after the round",
  "not-assigned": "had no slot",
  "conflicting-update": "a second, different update",
  "not-enrolled": "is not enrolled",
  "certificate-expired": "certificate is over",
  "revoked": "was revoked",
  "replayed": "a request that was sent before",
  "bad-signature": "a signature that is wrong",
  "token-refused": "an enrolment token that is not good",
  "attestation-refused": "could not prove what it is",
  "too-many-devices": "too many devices of one account",
  "malformed": "bytes that make no sense",
  "wrong-shape": "rows that do not fit the model",
  "not-finite": "numbers that are not finite",
  "too-large": "a body that is too large",
  "unsupported-version": "another version of the protocol",
  "slow-down": "asked too often",
  "unavailable": "the coordinator was busy",
  "internal": "a fault of the coordinator",
  "not-found": "asked for what is not there",
  "method-not-allowed": "a method that is not allowed",
  "exists-already": "a name that is taken",
  "unknown-admin": "not an admin",
  "not-allowed": "a role that does not allow it",
};
export const reason = (code) => REASONS[code] ?? code.replaceAll("-", " ");
