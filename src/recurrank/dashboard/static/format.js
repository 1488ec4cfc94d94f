// Numbers and times for people.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 12,345. */
export const count = (number) => (number === null || number === undefined ? "–" : whole.format(number));

/** 1.234, with a sensible number of digits. */
export function rate(number) {
  if (number === null || number === undefined) return "–";
  return number.toFixed(number >= 100 ? 0 : number >= 10 ? 1 : number >= 1 ? 2 : 3);
}

/** 12.3 %. */
export function percent(share) {
  if (share === null || share === undefined) return "–";
  const hundred = 100 * share;
  return `${hundred.toFixed(hundred >= 10 || hundred === 0 ? 0 : 1)} %`;
}

/** 14:03:12, of seconds since 1970. */
export function time(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

/** "1 item", "2 items". */
export const many = (number, thing) => `${count(number)} ${thing}${number === 1 ? "" : "s"}`;
