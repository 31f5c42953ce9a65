package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/deltad/deltad/store"
)

func (s suite) getWhole(t *testing.T) {
	st := s.open(t)
	for _, n := range []int{0, 1, 4096, 300_000} {
		key, body := fmt.Sprintf("g/%d", n), pattern(n)
		etag, err := store.PutBytes(t.Context(), st, key, body, store.PutOptions{ContentType: "application/json"})
		want(t, "put", err, nil)
		obj, err := st.Get(t.Context(), key, store.GetOptions{})
		want(t, "get", err, nil)
		got, err := io.ReadAll(obj.Body)
		want(t, "read", err, nil)
		want(t, "close", obj.Body.Close(), nil)
		same(t, key, got, body)
		if obj.Info.ETag != etag || obj.Info.Key != key || obj.Info.Size != int64(n) || obj.Offset != 0 || obj.Length != int64(n) {
			t.Fatalf("get %s: %+v, put gave ETag %s", key, obj, etag)
		}
		for info, err := range store.Objects(t.Context(), st, store.ListOptions{Prefix: key}) {
			want(t, "list", err, nil)
			if info.Key == key && (info.ETag != etag || info.Size != int64(n)) {
				t.Fatalf("list says %+v, put gave ETag %s of %d bytes", info, etag, n)
			}
		}
	}
	_, _, err := store.ReadAll(t.Context(), st, "g/4096", 4095, store.GetOptions{})
	want(t, "read with a lower limit", err, store.ErrTooLarge)

	// A body that was read halfway and left does not disturb what follows.
	obj, err := st.Get(t.Context(), "g/300000", store.GetOptions{})
	want(t, "get", err, nil)
	_, err = io.ReadFull(obj.Body, make([]byte, 10))
	want(t, "read 10", err, nil)
	want(t, "close early", obj.Body.Close(), nil)
	same(t, "after leaving early", []byte(first(get(t, st, "g/1"))), pattern(1))

	// The body is put from its start, wherever it stands.
	r := bytes.NewReader([]byte("from the start"))
	if _, err := r.Seek(5, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	_, err = st.Put(t.Context(), "g/rewound", r, store.PutOptions{})
	want(t, "put a body that was read", err, nil)
	if b, _ := get(t, st, "g/rewound"); b != "from the start" {
		t.Fatalf("got %q", b)
	}
}

func first[A, B any](a A, _ B) A { return a }

func (s suite) getRanges(t *testing.T) {
	st := s.open(t)
	body := pattern(1000)
	etag := put(t, st, "r", string(body))
	put(t, st, "empty", "")
	for _, c := range []struct {
		name           string
		key            string
		offset, length int64
		want           []byte
		class          error
	}{
		{"head of it", "r", 0, 10, body[:10], nil},
		{"middle", "r", 100, 300, body[100:400], nil},
		{"to the end", "r", 900, 0, body[900:], nil},
		{"over the end", "r", 990, 100, body[990:], nil},
		{"last byte", "r", 999, 1, body[999:], nil},
		{"all by length", "r", 0, 1000, body, nil},
		{"suffix", "r", -8, 0, body[992:], nil},
		{"suffix longer than it", "r", -5000, 0, body, nil},
		{"begins at the end", "r", 1000, 0, nil, store.ErrRange},
		{"begins behind the end", "r", 5000, 10, nil, store.ErrRange},
		{"of nothing", "empty", 0, 10, nil, store.ErrRange},
		{"suffix of nothing", "empty", -10, 0, nil, store.ErrRange},
		{"negative length", "r", 0, -1, nil, store.ErrRange},
		{"suffix with length", "r", -8, 4, nil, store.ErrRange},
		{"of an absent key", "absent", 5, 10, nil, store.ErrNotFound},
	} {
		obj, err := st.Get(t.Context(), c.key, store.GetOptions{Offset: c.offset, Length: c.length})
		want(t, c.name, err, c.class)
		if c.class != nil {
			continue
		}
		got, err := io.ReadAll(obj.Body)
		want(t, c.name+": read", err, nil)
		want(t, c.name+": close", obj.Body.Close(), nil)
		same(t, c.name, got, c.want)
		if obj.Info.Size != 1000 || obj.Info.ETag != etag || obj.Length != int64(len(c.want)) || !bytes.Equal(body[obj.Offset:obj.Offset+obj.Length], c.want) {
			t.Fatalf("%s: %+v", c.name, obj)
		}
	}
}

func (s suite) getConditions(t *testing.T) {
	st := s.open(t)
	old := put(t, st, "c", "old body")
	cur := put(t, st, "c", "the new body")
	for _, c := range []struct {
		name  string
		key   string
		o     store.GetOptions
		class error
	}{
		{"match", "c", store.GetOptions{IfMatch: cur}, nil},
		{"stale match", "c", store.GetOptions{IfMatch: old}, store.ErrPrecondition},
		{"match in a range", "c", store.GetOptions{IfMatch: cur, Offset: 4}, nil},
		{"stale match in a range", "c", store.GetOptions{IfMatch: old, Offset: 4}, store.ErrPrecondition},
		{"match of an absent key", "absent", store.GetOptions{IfMatch: cur}, store.ErrNotFound},
		{"unchanged", "c", store.GetOptions{IfNoneMatch: cur}, store.ErrNotModified},
		{"changed", "c", store.GetOptions{IfNoneMatch: old}, nil},
		{"changed, absent key", "absent", store.GetOptions{IfNoneMatch: cur}, store.ErrNotFound},
	} {
		if s.o.WeakGet != "" && errors.Is(c.class, store.ErrPrecondition) {
			t.Log(s.o.WeakGet)
			continue
		}
		b, info, err := store.ReadAll(t.Context(), st, c.key, 1000, c.o)
		want(t, c.name, err, c.class)
		if c.class == nil && (string(b) != "the new body"[c.o.Offset:] || info.ETag != cur) {
			t.Fatalf("%s: %q, ETag %s", c.name, b, info.ETag)
		}
	}
}

func (s suite) head(t *testing.T) {
	st := s.open(t)
	etag := put(t, st, "h/a", "12345")
	info, err := st.Head(t.Context(), "h/a")
	want(t, "head", err, nil)
	if info.Key != "h/a" || info.ETag != etag || info.Size != 5 || info.LastModified.IsZero() {
		t.Fatalf("head: %+v", info)
	}
	for _, k := range []string{"h", "h/a/b", "h/b", "absent"} {
		_, err = st.Head(t.Context(), k)
		want(t, "head "+k, err, store.ErrNotFound)
	}
}

func (s suite) delete(t *testing.T) {
	st := s.open(t)
	fill(t, st, []string{"d/a", "d/b", "d/c/d"})
	for _, k := range []string{"d/a", "d/a", "absent", "absent/too", "d/c/d", "d/c/d"} {
		want(t, "delete "+k, st.Delete(t.Context(), k), nil)
	}
	_, err := st.Get(t.Context(), "d/a", store.GetOptions{})
	want(t, "get a deleted key", err, store.ErrNotFound)
	equal(t, "keys", list(t, st, store.ListOptions{}).Keys, []string{"d/b"})
	put(t, st, "d/a", "back")
	equal(t, "keys", list(t, st, store.ListOptions{}).Keys, []string{"d/a", "d/b"})
}

// largeObject is big enough for implementations that split uploads.
func (s suite) largeObject(t *testing.T) {
	st := s.open(t)
	body := pattern(20<<20 + 17)
	etag, err := store.PutBytes(t.Context(), st, "l/big", body, store.PutOptions{IfNoneMatch: true})
	want(t, "put 20 MiB", err, nil)
	got, info, err := store.ReadAll(t.Context(), st, "l/big", 1<<26, store.GetOptions{IfMatch: etag})
	want(t, "get 20 MiB", err, nil)
	same(t, "20 MiB", got, body)
	if info.ETag != etag || info.Size != int64(len(body)) {
		t.Fatalf("get: %+v, put gave %s", info, etag)
	}
	got, _, err = store.ReadAll(t.Context(), st, "l/big", 1<<26, store.GetOptions{Offset: 9 << 20, Length: 1 << 20})
	want(t, "range of 20 MiB", err, nil)
	same(t, "range", got, body[9<<20:10<<20])

	// Create-only and compare-and-swap hold for large bodies too.
	_, err = store.PutBytes(t.Context(), st, "l/big", pattern(17<<20), store.PutOptions{IfNoneMatch: true})
	want(t, "create over it", err, store.ErrPrecondition)
	_, err = store.PutBytes(t.Context(), st, "l/big", pattern(17<<20), store.PutOptions{IfMatch: "0123456789abcdef0123456789abcdef"})
	want(t, "swap with a stale ETag", err, store.ErrPrecondition)
	if info, err = st.Head(t.Context(), "l/big"); err != nil || info.ETag != etag {
		t.Fatalf("after the refusals: %+v, %v", info, err)
	}
	equal(t, "keys", list(t, st, store.ListOptions{}).Keys, []string{"l/big"})
	_, err = store.PutBytes(t.Context(), st, "l/big", pattern(17<<20), store.PutOptions{IfMatch: etag})
	want(t, "swap", err, nil)
}

// lastModified is B5: objects written in one second are told apart by ETag, replaced ones too, and LastModified is never needed.
func (s suite) lastModified(t *testing.T) {
	st := s.open(t)
	seen := map[string]bool{}
	for i := range 20 {
		etag := put(t, st, "lm/x", fmt.Sprintf("%02d", i))
		if seen[etag] {
			t.Fatalf("ETag %s twice", etag)
		}
		seen[etag] = true
		info, err := st.Head(t.Context(), "lm/x")
		want(t, "head", err, nil)
		if info.ETag != etag || info.LastModified.Location() != time.UTC {
			t.Fatalf("version %d: %+v, put gave %s", i, info, etag)
		}
	}
}

// cancelled is the store's part of B30: a call whose context has ended fails with the context's error and changes nothing.
func (s suite) cancelled(t *testing.T) {
	st := s.open(t)
	put(t, st, "x", "old")
	ctx, cancel := context.WithCancel(t.Context())
	obj, err := st.Get(ctx, "x", store.GetOptions{})
	want(t, "get", err, nil)
	want(t, "close", obj.Body.Close(), nil)
	cancel()
	_, err = st.List(ctx, store.ListOptions{})
	want(t, "list", err, context.Canceled)
	_, err = st.Get(ctx, "x", store.GetOptions{})
	want(t, "get", err, context.Canceled)
	_, err = st.Head(ctx, "x")
	want(t, "head", err, context.Canceled)
	_, err = store.PutBytes(ctx, st, "x", []byte("new"), store.PutOptions{})
	want(t, "put", err, context.Canceled)
	_, err = store.PutBytes(ctx, st, "y", pattern(17<<20), store.PutOptions{IfNoneMatch: true})
	want(t, "put large", err, context.Canceled)
	want(t, "delete", st.Delete(ctx, "x"), context.Canceled)
	if b, _ := get(t, st, "x"); b != "old" {
		t.Fatalf("x is %q", b)
	}
	equal(t, "keys", list(t, st, store.ListOptions{}).Keys, []string{"x"})

	// Cancelled in the middle of a large upload: nothing half-visible.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	_, err = st.Put(ctx, "y", &cancelling{Reader: bytes.NewReader(pattern(20 << 20)), after: 9 << 20, cancel: cancel}, store.PutOptions{IfNoneMatch: true})
	if err == nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("put cancelled in the middle: %v", err)
	}
	equal(t, "keys", list(t, st, store.ListOptions{}).Keys, []string{"x"})
	put(t, st, "y", "afterwards")
}

// cancelling is a body that ends the context once so many bytes were read.
type cancelling struct {
	*bytes.Reader
	after  int64
	cancel context.CancelFunc
}

func (c *cancelling) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if c.Size()-int64(c.Len()) >= c.after {
		c.cancel()
	}
	return n, err
}

// ReadAt counts like Read for implementations that read parts at offsets.
func (c *cancelling) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	if off+int64(n) >= c.after {
		c.cancel()
	}
	return n, err
}
