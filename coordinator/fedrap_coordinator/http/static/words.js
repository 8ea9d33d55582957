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

// The codes of spec/PROTOCOL.md 8 that operators meet, in words.
const REASONS = {
  "no-round": "no room in the round",
  "too-soon": "took part too recently",
  "budget-spent": "has taken part K times",
  "task-over": "all rounds were made",
  "stale-model": "held an older release",
  "round-closed": "came after the round",
  "not-assigned": "had no place",
  "not-enrolled": "is not enrolled",
  "too-many-requests": "asked too often",
  "unavailable": "the coordinator was busy",
  "malformed": "bytes that make no sense",
  "bad-signature": "a signature that is wrong",
  "stale-nonce": "a request that was sent before",
  "conflicting-update": "a second, different update",
  "certificate-expired": "certificate is over",
  "waiting": "key is too new",
  "revoked": "was revoked",
};
export const reason = (code) => REASONS[code] ?? code.replaceAll("-", " ");
