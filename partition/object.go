package partition

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// Object is a data file in a partition. Key is the store's key, exact; ETag is unquoted; Partition is the start of its partition, UTC.
type Object struct {
	Key       string
	ETag      string
	Size      int64 // bytes
	Partition time.Time
}

// Ignored reports whether a path below a partition's prefix (or below any directory of the layout) is ignored by default: a segment begins
// with "_" or ".", or it is a directory marker, a zero-byte key that ends in "/" (or nothing at all).
func Ignored(rel string, size int64) bool {
	if size == 0 && (rel == "" || strings.HasSuffix(rel, "/")) {
		return true
	}
	_, ignored := ignoredTree(rel)
	return ignored
}

// ignoredTree returns the shortest directory of rel, with its slash, that is ignored as a whole; "" if it is only the file itself.
func ignoredTree(rel string) (tree string, ignored bool) {
	for from := 0; ; {
		if from < len(rel) && (rel[from] == '_' || rel[from] == '.') {
			if i := strings.IndexByte(rel[from:], '/'); i >= 0 {
				return rel[:from+i+1], true
			}
			return "", true
		}
		i := strings.IndexByte(rel[from:], '/')
		if i < 0 {
			return "", false
		}
		from += i + 1
	}
}

// Fingerprint identifies the set of (key, ETag, size) of a partition's objects.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns the fingerprint of a set of objects, whatever their order; an object given twice counts once. Partition starts
// take no part. The argument is not changed.
func FingerprintOf(objects []Object) Fingerprint {
	if !slices.IsSortedFunc(objects, compareObjects) {
		objects = slices.Clone(objects)
		slices.SortFunc(objects, compareObjects)
	}
	if len(objects) <= fewObjects {
		var stack [fewObjects * 128]byte
		buf := stack[:0]
		for i := range objects {
			if i == 0 || compareObjects(objects[i], objects[i-1]) != 0 {
				buf = appendObject(buf, &objects[i])
			}
		}
		return sha256.Sum256(buf)
	}
	var buf []byte
	h := sha256.New()
	for i := range objects {
		if i == 0 || compareObjects(objects[i], objects[i-1]) != 0 {
			buf = appendObject(buf[:0], &objects[i])
			h.Write(buf)
		}
	}
	var f Fingerprint
	h.Sum(f[:0])
	return f
}

// fewObjects have their fingerprint computed without memory being taken, as long as their keys are not very long.
const fewObjects = 8

func compareObjects(a, b Object) int {
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	if c := strings.Compare(a.ETag, b.ETag); c != 0 {
		return c
	}
	return cmp.Compare(a.Size, b.Size)
}

// appendObject appends what a fingerprint is of: lengths first, so that no two different sets can write the same bytes.
func appendObject(buf []byte, o *Object) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(o.Key)))
	buf = append(buf, o.Key...)
	buf = binary.AppendUvarint(buf, uint64(len(o.ETag)))
	buf = append(buf, o.ETag...)
	return binary.AppendVarint(buf, o.Size)
}

// String is lower-case hex.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }
