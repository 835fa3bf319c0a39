// The part of JSON that the plugins need: writing a string, and reading the host's flat answers.

// quote returns text as a JSON string.
export function quote(text: string): string {
  let out = '"';
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c == 0x22 || c == 0x5c) {
      out += "\\" + text.charAt(i);
    } else if (c < 0x20) {
      out += c < 0x10 ? "\\u000" : "\\u001";
      out += "0123456789abcdef".charAt(c & 15);
    } else {
      out += text.charAt(i);
    }
  }
  return out + '"';
}

// pair returns a name and a value as an object of a list.
export function pair(name: string, value: string): string {
  return '{"name":' + quote(name) + ',"value":' + quote(value) + "}";
}

// member returns a string or integer member of a document as text, or "" if there is none. It does not decode escapes: the
// members of the host's answers are integers, sealed values and registered names, which have none.
export function member(object: string, name: string): string {
  const key = quote(name) + ":";
  const at = object.indexOf(key);
  if (at < 0) return "";
  let from = at + key.length;
  let to = from;
  if (object.charAt(from) == '"') {
    to = object.indexOf('"', ++from);
    return to < 0 ? "" : object.substring(from, to);
  }
  while (to < object.length && object.charAt(to) != "," && object.charAt(to) != "}") to++;
  return object.substring(from, to);
}
