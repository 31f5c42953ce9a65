package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/s3"
)

// times lets the first n requests of an operation meet a fault.
func times(n int32, op string, fault http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	var seen atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) bool {
		_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if name(r, key) != op || seen.Add(1) > n {
			return false
		}
		fault(w, r)
		return true
	}
}

func unavailable(w http.ResponseWriter, _ *http.Request) { refuse(w, 500, "InternalError", "again") }

func TestBurstsOfErrorsAreRetried(t *testing.T) {
	f := newFake()
	st := open(t, f.serve(t).URL, nil)
	for _, op := range []string{"put", "get", "head", "list", "delete"} {
		f.lie = times(2, op, unavailable)
		var err error
		switch op {
		case "put":
			_, err = store.PutBytes(t.Context(), st, "k", []byte("x"), store.PutOptions{})
		case "get":
			_, _, err = store.ReadAll(t.Context(), st, "k", 10, store.GetOptions{})
		case "head":
			_, err = st.Head(t.Context(), "k")
		case "list":
			_, err = st.List(t.Context(), store.ListOptions{})
		case "delete":
			err = st.Delete(t.Context(), "k")
		}
		want(t, op, err, nil)
	}
	// Racing conditional writes are asked to come again, and do.
	f.lie = times(2, "put", func(w http.ResponseWriter, _ *http.Request) { refuse(w, 409, "ConditionalRequestConflict", "race") })
	_, err := store.PutBytes(t.Context(), st, "k2", []byte("x"), store.PutOptions{IfNoneMatch: true})
	want(t, "create", err, nil)
	f.lie = times(100, "get", unavailable)
	before := len(f.ops())
	_, err = st.Get(t.Context(), "k2", store.GetOptions{})
	want(t, "get", err, store.ErrUnavailable)
	if n := len(f.ops()) - before; n != 4 {
		t.Fatalf("%d attempts", n)
	}
}

// applied lets the server do it, and loses or falsifies the answer.
func (f *fake) applied(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		r2 := r.Clone(r.Context())
		plain := &fake{objects: f.objects, meta: f.meta, uploads: f.uploads, upload: f.upload}
		plain.ServeHTTP(rec, r2)
		if status == 0 {
			panic(http.ErrAbortHandler)
		}
		refuse(w, status, "InternalError", "done, but")
	}
}

// TestLostRepliesOfConditionalPuts has the retry meet the put's own first attempt: that is a success, of the same version.
func TestLostRepliesOfConditionalPuts(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		size   int
		op     string
	}{
		{"cut", 0, 10, "put"},
		{"error", 500, 10, "put"},
		{"large, cut", 0, 11 << 20, "complete"},
		{"large, error", 500, 11 << 20, "complete"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			st := open(t, f.serve(t).URL, nil)
			f.lie = times(1, c.op, f.applied(c.status))
			body := bytes.Repeat([]byte("b"), c.size)
			etag, err := store.PutBytes(t.Context(), st, "k", body, store.PutOptions{IfNoneMatch: true})
			want(t, "create", err, nil)
			f.lie = times(1, c.op, f.applied(c.status))
			body[0] = 'c'
			next, err := store.PutBytes(t.Context(), st, "k", body, store.PutOptions{IfMatch: etag})
			want(t, "swap", err, nil)
			f.lie = times(1, c.op, f.applied(c.status))
			_, err = store.PutBytes(t.Context(), st, "any", body, store.PutOptions{})
			want(t, "put without a condition", err, nil)
			info, err := st.Head(t.Context(), "k")
			want(t, "head", err, nil)
			if info.ETag != next || next == etag {
				t.Fatalf("%s, then %s; the object is %s", etag, next, info.ETag)
			}
			// Somebody else's object is a refusal all the same.
			_, err = store.PutBytes(t.Context(), st, "k", body, store.PutOptions{IfNoneMatch: true})
			want(t, "create over it", err, store.ErrPrecondition)
			if f.openUploads() != 0 {
				t.Fatalf("%d uploads left", f.openUploads())
			}
		})
	}
}

func TestUnretriedPutIsOneRequest(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		class  error
	}{{"cut", 0, store.ErrUnavailable}, {"error", 503, store.ErrUnavailable}, {"conflict", 409, store.ErrConflict}} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			st := open(t, f.serve(t).URL, nil)
			fault := f.applied(c.status)
			if c.status == 409 {
				fault = func(w http.ResponseWriter, _ *http.Request) { refuse(w, 409, "ConditionalRequestConflict", "race") }
			}
			f.lie = times(10, "put", fault)
			_, err := store.PutBytes(t.Context(), st, "CURRENT", []byte("1"), store.PutOptions{IfNoneMatch: true, Unretried: true})
			want(t, "create", err, c.class)
			if ops := f.ops(); !slices.Equal(ops, []string{"put"}) {
				t.Fatalf("sent %v", ops)
			}
			if h := f.last(t, "put").header; h.Get("X-Amz-Meta-Deltad-Put") != "" {
				t.Fatal("an unretried put needs no token")
			}
		})
	}
}

// TestAnAnswerWithoutVersionIsNoSuccess meets a portal that answers every put with a page and a good status: the old version, which a
// look would find, must not pass for the new one.
func TestAnAnswerWithoutVersionIsNoSuccess(t *testing.T) {
	page := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!DOCTYPE html><html><body>Please sign in</body></html>")
	}
	for _, c := range []struct {
		name, op string
		size     int
		o        store.PutOptions
	}{
		{"swap", "put", 10, store.PutOptions{Unretried: true}},
		{"swap, retried", "put", 10, store.PutOptions{}},
		{"large", "complete", 11 << 20, store.PutOptions{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			st := open(t, f.serve(t).URL, nil)
			old, err := store.PutBytes(t.Context(), st, "CURRENT", []byte("1"), store.PutOptions{})
			want(t, "put", err, nil)
			f.lie = times(10, c.op, page)
			c.o.IfMatch = old
			_, err = store.PutBytes(t.Context(), st, "CURRENT", make([]byte, c.size), c.o)
			want(t, "put through a portal", err, store.ErrUnavailable)
			c.o.IfMatch, c.o.IfNoneMatch = "", true
			_, err = store.PutBytes(t.Context(), st, "new", make([]byte, c.size), c.o)
			want(t, "create through a portal", err, store.ErrUnavailable)
			if info, err := st.Head(t.Context(), "CURRENT"); err != nil || info.ETag != old {
				t.Fatalf("CURRENT is %s, %v; want %s", info.ETag, err, old)
			}
		})
	}
}

// TestDamagedUploadIsAnOutage has the server find other bytes than were sent: to be tried again, and no reason to change a setting.
func TestDamagedUploadIsAnOutage(t *testing.T) {
	for _, code := range []string{"BadDigest", "XAmzContentSHA256Mismatch"} {
		f := newFake()
		st := open(t, f.serve(t).URL, nil) // without TLS no trailer is sent
		f.lie = times(10, "put", func(w http.ResponseWriter, _ *http.Request) { refuse(w, 400, code, "The checksum did not match.") })
		_, err := store.PutBytes(t.Context(), st, "k", []byte("x"), store.PutOptions{})
		want(t, code, err, store.ErrUnavailable)
		if strings.Contains(err.Error(), "when_required") {
			t.Errorf("%v", err)
		}
	}
}

// TestAbortIsRepeated has an upload survive its first abort, as one does whose part is still being received.
func TestAbortIsRepeated(t *testing.T) {
	f := newFake()
	st := open(t, f.serve(t).URL, nil)
	survive := times(1, "abort", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	refused := times(1, "complete", func(w http.ResponseWriter, _ *http.Request) { refuse(w, 403, "AccessDenied", "no") })
	f.lie = func(w http.ResponseWriter, r *http.Request) bool { return survive(w, r) || refused(w, r) }
	_, err := store.PutBytes(t.Context(), st, "k", make([]byte, 11<<20), store.PutOptions{})
	want(t, "put", err, store.ErrDenied)
	if n := f.openUploads(); n != 0 {
		t.Fatalf("%d uploads left", n)
	}
}

// cut sends only the first n bytes of what a get would send.
func (f *fake) cut(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		(&fake{objects: f.objects, meta: f.meta}).ServeHTTP(rec, r)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:min(n, rec.Body.Len())])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestBrokenBodiesAreResumed(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 10_000)
	f := newFake()
	st := open(t, f.serve(t).URL, nil)
	etag, err := store.PutBytes(t.Context(), st, "k", body, store.PutOptions{})
	want(t, "put", err, nil)

	f.lie = times(3, "get", f.cut(20_000))
	got, info, err := store.ReadAll(t.Context(), st, "k", 1<<20, store.GetOptions{})
	want(t, "get", err, nil)
	if !bytes.Equal(got, body) || info.ETag != etag {
		t.Fatalf("%d bytes", len(got))
	}
	if h := f.last(t, "get").header; h.Get("Range") != "bytes=60000-99999" || h.Get("If-Match") != `"`+etag+`"` {
		t.Fatalf("resumed with %v", h)
	}
	f.lie = times(1, "get", f.cut(1000))
	got, _, err = store.ReadAll(t.Context(), st, "k", 1<<20, store.GetOptions{Offset: -5000})
	want(t, "get a suffix", err, nil)
	if !bytes.Equal(got, body[95_000:]) {
		t.Fatalf("%d bytes", len(got))
	}

	f.lie = times(100, "get", f.cut(10))
	_, _, err = store.ReadAll(t.Context(), st, "k", 1<<20, store.GetOptions{})
	want(t, "get that always breaks", err, store.ErrUnavailable)

	// Replaced between the two halves: neither half of one version and half of the other, nor not found.
	fault := f.cut(20_000)
	f.lie = times(1, "get", func(w http.ResponseWriter, r *http.Request) {
		defer func() { _, _ = store.PutBytes(context.Background(), f.objects, "k", []byte("new"), store.PutOptions{}) }()
		fault(w, r)
	})
	_, _, err = store.ReadAll(t.Context(), st, "k", 1<<20, store.GetOptions{})
	want(t, "get while it is replaced", err, store.ErrUnavailable)
	if !strings.Contains(err.Error(), "replaced while it was read") {
		t.Fatal(err)
	}
}

// TestServersThatIgnoreOptions answers with the whole object whatever is asked.
func TestServersThatIgnoreOptions(t *testing.T) {
	f := newFake()
	f.lie = func(w http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		r.Header.Del("If-Match")
		return false
	}
	st := open(t, f.serve(t).URL, nil)
	_, err := store.PutBytes(t.Context(), st, "k", []byte("0123456789"), store.PutOptions{})
	want(t, "put", err, nil)
	_, err = st.Get(t.Context(), "k", store.GetOptions{Offset: 3, Length: 2})
	want(t, "range", err, store.ErrUnsupported)
	_, err = st.Get(t.Context(), "k", store.GetOptions{IfMatch: "other"})
	want(t, "match", err, store.ErrPrecondition)
	f.lie = func(w http.ResponseWriter, r *http.Request) bool {
		_, _ = io.WriteString(w, "<html>Sign in</html>")
		return true
	}
	_, err = st.Get(t.Context(), "k", store.GetOptions{})
	want(t, "a page for an object", err, store.ErrUnavailable)
	_, err = st.Head(t.Context(), "k")
	want(t, "head", err, store.ErrUnavailable)
}

func TestSilenceEnds(t *testing.T) {
	f := newFake()
	st := open(t, f.serve(t).URL, func(o *s3.Options) { o.Timeout = 500 * time.Millisecond; o.Attempts = 3 })
	_, err := store.PutBytes(t.Context(), st, "k", make([]byte, 1<<20), store.PutOptions{})
	want(t, "put", err, nil)
	// no headers
	f.lie = times(1, "head", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	})
	start := time.Now()
	_, err = st.Head(t.Context(), "k")
	want(t, "head after silence", err, nil)
	// a body that stops
	f.lie = times(1, "get", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+"b6d81b360a5672d80c27430f39153e2c"+`"`)
		w.Header().Set("Content-Length", "1048576")
		_, _ = w.Write(make([]byte, 1000))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	})
	got, _, err := store.ReadAll(t.Context(), st, "k", 1<<20, store.GetOptions{})
	want(t, "get after silence", err, nil)
	if len(got) != 1<<20 || time.Since(start) > 5*time.Second {
		t.Fatalf("%d bytes after %v", len(got), time.Since(start))
	}
}

// TestMissingCredentialsAreNamed: what cannot be signed never reached the store, which is not to blame; it is tried again like an outage.
func TestMissingCredentialsAreNamed(t *testing.T) {
	srv := newFake().serve(t)
	st := open(t, srv.URL, func(o *s3.Options) { o.Credentials = nil })
	_, err := st.List(t.Context(), store.ListOptions{})
	if !errors.Is(err, store.ErrCredentials) || !errors.Is(err, store.ErrUnavailable) || store.Outcome(err) != "credentials" {
		t.Fatalf("%v, want one that names credentials", err)
	}
	if text := err.Error(); !strings.Contains(text, "no credentials") || strings.Contains(text, "store unavailable") {
		t.Errorf("it says %q", text)
	}
}
