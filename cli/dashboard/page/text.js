// Numbers and times as people read them.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const count = (n) => whole.format(n);

export const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

// dollars shows cents, and more digits of small amounts.
export const dollars = (n) => "$" + n.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: n < 1 ? 4 : 2 });

// dollarsOfMonth shows whole dollars, and cents of small amounts.
export const dollarsOfMonth = (n) => (n < 100 ? dollars(n) : "$" + count(n));

export const watts = (n) => (n >= 10_000 ? `${(n / 1000).toLocaleString("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} kW` : `${count(n)} W`);

export const percent = (share) => `${Math.round(100 * share)} %`;

export const cores = (milli) => (milli / 1000).toLocaleString("en-US", { maximumFractionDigits: 2 });

export const bytes = (n) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit++;
  }
  return `${n.toLocaleString("en-US", { maximumFractionDigits: n < 10 ? 1 : 0 })} ${units[unit]}`;
};

// span is a time in seconds, to two units.
export const span = (seconds) => {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return s % 60 && s < 600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
};

const clockFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// clock is the time of day, with the date if that is another one.
export const clock = (milliseconds) => {
  const at = new Date(milliseconds);
  return (at.toDateString() === new Date().toDateString() ? clockFormat : dayFormat).format(at);
};

// The time bins that are no number, as the server sends them.
export const ENDLESS = -1;
export const UNKNOWN = -2;

export const bin = (n) => (n === ENDLESS ? "does not end" : n === UNKNOWN ? "unknown" : String(n));
