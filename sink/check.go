package sink

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// check collects the first thing that is wrong, naming its field.
type check struct{ err error }

func (k *check) that(ok bool, field, format string, args ...any) {
	if !ok && k.err == nil {
		k.err = fmt.Errorf("%s "+format, append([]any{field}, args...)...)
	}
}

// format accepts what is wanted and its minor versions ("deltad.current/1", "deltad.current/1.4").
func (k *check) format(field, got string, want ...string) {
	if !slices.Contains(want, major(got)) && k.err == nil {
		k.err = fmt.Errorf("%s %q, want %q: %w", field, got, strings.Join(want, " or "), ErrFormat)
	}
}

// major is a format without its minor version.
func major(format string) string {
	name, number, _ := strings.Cut(format, "/")
	number, _, _ = strings.Cut(number, ".")
	return name + "/" + number
}

func (k *check) id(field, id string) {
	k.that(ValidID(id), field, "%q is not a ULID (26 upper-case Crockford base-32 characters)", id)
}

func (k *check) hash(field, h string) {
	ok := len(h) == 64
	for i := 0; ok && i < len(h); i++ {
		ok = h[i] >= '0' && h[i] <= '9' || h[i] >= 'a' && h[i] <= 'f'
	}
	k.that(ok, field, "%q is not a lower-case hexadecimal SHA-256", h)
}

func (k *check) key(field, key string) {
	ok := key != "" && key[0] != '/' && path.Clean(key) == key && key != ".." && !strings.HasPrefix(key, "../") &&
		key != "." && utf8.ValidString(key) && !strings.ContainsRune(key, 0)
	k.that(ok, field, "%q is not a relative key", key)
}

func (k *check) ref(field string, r Ref) {
	k.key(field+".manifest", r.Manifest)
	k.hash(field+".sha256", r.SHA256)
}

// ValidID says whether id is a ULID in its canonical form. Run ids, generations and change ids are.
func ValidID(id string) bool {
	if len(id) != 26 || id[0] > '7' {
		return false
	}
	for i := 0; i < len(id); i++ {
		if strings.IndexByte("0123456789ABCDEFGHJKMNPQRSTVWXYZ", id[i]) < 0 {
			return false
		}
	}
	return true
}
