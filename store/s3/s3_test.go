package s3_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/s3"
	"github.com/deltad/deltad/store/storetest"
)

func want(t *testing.T, what string, err, class error) {
	t.Helper()
	if class == nil && err != nil || class != nil && !errors.Is(err, class) {
		t.Fatalf("%s: got error %v, want %v", what, err, class)
	}
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, newFake().serve(t).URL, nil) }, storetest.Options{Rounds: 3})
}

func TestOptions(t *testing.T) {
	isolate(t)
	for _, c := range []struct {
		name string
		o    s3.Options
		err  []string
	}{
		{"everything wrong", s3.Options{Endpoint: "host:9000", Checksum: "never", ExternalID: "x", ACL: "open", PartSize: 1,
			Tags: map[string]string{"a": "", "b": "", "c": "", "d": "", "e": "", "f": "", "g": "", "h": "", "i": "", "j": "", "k": ""}},
			[]string{"bucket:", "endpoint:", "checksum:", "external_id:", "acl:", "tags:", "part size:"}},
		{"no region", s3.Options{Bucket: "b"}, []string{"region:"}},
		{"no CA file", s3.Options{Bucket: "b", Region: "r", CAFile: "/absent.pem"}, []string{"ca_file", "/absent.pem"}},
		{"unknown profile", s3.Options{Bucket: "b", Region: "r", Profile: "absent"}, []string{"absent"}},
		{"endpoint needs no region", s3.Options{Bucket: "b", Endpoint: "http://127.0.0.1:1"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s3.New(t.Context(), c.o)
			if (err == nil) != (c.err == nil) {
				t.Fatalf("got %v", err)
			}
			for _, part := range c.err {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}

// TestHeadersOfOptions looks at what is sent.
func TestHeadersOfOptions(t *testing.T) {
	f := newFake()
	st := open(t, f.serve(t).URL, func(o *s3.Options) {
		o.RequesterPays, o.ExpectedOwner, o.SSEKMSKeyID, o.ACL = true, "123456789012", "key-id", "bucket-owner-full-control"
		o.Tags = map[string]string{"team": "ads & co", "a": "b"}
	})
	_, err := store.PutBytes(t.Context(), st, "small", []byte("x"), store.PutOptions{ContentType: "application/json"})
	want(t, "put", err, nil)
	_, err = store.PutBytes(t.Context(), st, "large", make([]byte, 11<<20), store.PutOptions{ContentType: "application/json"})
	want(t, "put large", err, nil)
	_, _, err = store.ReadAll(t.Context(), st, "small", 10, store.GetOptions{})
	want(t, "get", err, nil)
	_, err = st.List(t.Context(), store.ListOptions{})
	want(t, "list", err, nil)
	for _, op := range []string{"put", "create"} {
		h := f.last(t, op).header
		for k, v := range map[string]string{
			"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "key-id", "X-Amz-Acl": "bucket-owner-full-control",
			"X-Amz-Tagging": "a=b&team=ads+%26+co", "Content-Type": "application/json",
		} {
			if h.Get(k) != v {
				t.Errorf("%s: %s is %q, want %q", op, k, h.Get(k), v)
			}
		}
	}
	for _, op := range []string{"put", "create", "part", "complete", "get", "list"} {
		h := f.last(t, op).header
		if h.Get("X-Amz-Request-Payer") != "requester" || h.Get("X-Amz-Expected-Bucket-Owner") != "123456789012" {
			t.Errorf("%s: %v", op, h)
		}
	}
	if q := f.last(t, "list").query; q.Get("encoding-type") != "url" {
		t.Errorf("list: %v", q)
	}
}

// listing answers every list with one body.
func listing(t *testing.T, contentType, body string) *s3.Store {
	t.Helper()
	f := newFake()
	f.lie = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
		return true
	}
	return open(t, f.serve(t).URL, nil)
}

// TestBadListings wants every lie of a listing refused, and never taken for an empty or short result.
func TestBadListings(t *testing.T) {
	const (
		head = `<?xml version="1.0"?><ListBucketResult>`
		tail = `</ListBucketResult>`
	)
	obj := func(key string) string {
		return "<Contents><Key>" + key + "</Key><ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
	}
	after := store.ListOptions{Prefix: "p/", StartAfter: "p/m", Token: ""}
	paged := store.ListOptions{Prefix: "p/", Token: "tok"}
	for _, c := range []struct {
		name, typ, body string
		o               store.ListOptions
		class           error
	}{
		{"HTML", "text/html; charset=utf-8", "<html><body>Sign in</body></html>", after, store.ErrBadListing},
		{"HTML without a type", "", "<html><body>Sign in</body></html>", after, store.ErrBadListing},
		{"HTML that says XML", "application/xml", "<html><body>Sign in</body></html>", after, store.ErrBadListing},
		{"nothing", "application/xml", "", after, store.ErrBadListing},
		{"JSON", "application/json", `{"Contents":[]}`, after, store.ErrBadListing},
		{"another document", "application/xml", `<?xml version="1.0"?><ListAllMyBucketsResult></ListAllMyBucketsResult>`, after, store.ErrBadListing},
		{"truncated without a token", "application/xml", head + "<IsTruncated>true</IsTruncated>" + obj("p/n") + tail, after, store.ErrBadListing},
		{"repeated token", "application/xml", head + "<IsTruncated>true</IsTruncated><NextContinuationToken>tok</NextContinuationToken>" + obj("p/n") + tail, paged, store.ErrBadListing},
		{"out of order", "application/xml", head + obj("p/o") + obj("p/n") + tail, after, store.ErrBadListing},
		{"twice", "application/xml", head + obj("p/n") + obj("p/n") + tail, after, store.ErrBadListing},
		{"outside the prefix", "application/xml", head + obj("q/n") + tail, after, store.ErrBadListing},
		{"ignores start-after", "application/xml", head + obj("p/a") + tail, after, store.ErrBadListing},
		{"prefix without delimiter", "application/xml", head + "<CommonPrefixes><Prefix>p/n/</Prefix></CommonPrefixes>" + tail, after, store.ErrBadListing},
		{"no ETag", "application/xml", head + "<Contents><Key>p/n</Key><Size>1</Size></Contents>" + tail, after, store.ErrBadListing},
		{"bad escape", "application/xml", head + "<EncodingType>url</EncodingType>" + obj("p/n%zz") + tail, after, store.ErrBadListing},
		{"cut in the middle", "application/xml", head + obj("p/n") + "<Contents><Key>p/", after, store.ErrUnavailable},
		{"good", "application/xml", head + obj("p/n") + tail, after, nil},
		{"good and empty", "application/xml", head + tail, after, nil},
		{"too large", "application/xml", head + strings.Repeat(" ", 17<<20) + tail, after, store.ErrBadListing},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := listing(t, c.typ, c.body).List(t.Context(), c.o)
			want(t, "list", err, c.class)
			if err != nil && (len(p.Objects) > 0 || !strings.Contains(err.Error(), "list s3://bkt/p/")) {
				t.Fatalf("%+v, %v", p, err)
			}
		})
	}
}

// TestB14KeysAreDecodedOnce is about servers that do and that do not encode keys.
func TestB14KeysAreDecodedOnce(t *testing.T) {
	for _, c := range []struct{ name, encoding, sent, want string }{
		{"encoded", "<EncodingType>url</EncodingType>", "part%2B1+a%3Db%253A.parquet", "part+1 a=b%3A.parquet"},
		{"encoded with %20", "<EncodingType>url</EncodingType>", "a%20b%2520c", "a b%20c"},
		{"as it is", "", "part+1 a=b%3A.parquet", "part+1 a=b%3A.parquet"},
		{"umlaut", "<EncodingType>url</EncodingType>", "%C3%BC.parquet", "\u00fc.parquet"},
		{"backslash", "<EncodingType>url</EncodingType>", "a%5Cb.parquet", `a\b.parquet`},
	} {
		t.Run(c.name, func(t *testing.T) {
			st := listing(t, "application/xml", "<ListBucketResult>"+c.encoding+"<Contents><Key>"+c.sent+"</Key><ETag>e</ETag></Contents></ListBucketResult>")
			p, err := st.List(t.Context(), store.ListOptions{})
			want(t, "list", err, nil)
			if p.Objects[0].Key != c.want {
				t.Fatalf("%q, want %q", p.Objects[0].Key, c.want)
			}
		})
	}
}

// TestErrors maps answers to classes.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		code   string
		class  error
	}{
		{"no such key", 404, "NoSuchKey", store.ErrNotFound},
		{"no such bucket is no absent key", 404, "NoSuchBucket", store.ErrNoBucket},
		{"unknown access key of versitygw", 404, "XAdminUserNotFound", store.ErrDenied},
		{"denied", 403, "AccessDenied", store.ErrDenied},
		{"bad signature", 403, "SignatureDoesNotMatch", store.ErrDenied},
		{"expired", 400, "ExpiredToken", store.ErrDenied},
		{"conflict", 409, "ConditionalRequestConflict", store.ErrConflict},
		{"parent is a file", 409, "ObjectParentIsFile", store.ErrBadKey},
		{"not implemented", 501, "NotImplemented", store.ErrUnsupported},
		{"slow down", 503, "SlowDown", store.ErrUnavailable},
		{"throttled", 429, "TooManyRequests", store.ErrUnavailable},
		{"broken", 500, "InternalError", store.ErrUnavailable},
		{"bad gateway", 502, "", store.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.lie = func(w http.ResponseWriter, r *http.Request) bool {
				refuse(w, c.status, c.code, "said the server")
				return true
			}
			st := open(t, f.serve(t).URL, func(o *s3.Options) { o.Attempts = 1; o.Checksum = s3.WhenRequired })
			_, err := st.Get(t.Context(), "k", store.GetOptions{})
			want(t, "get", err, c.class)
			_, err = store.PutBytes(t.Context(), st, "k", nil, store.PutOptions{})
			want(t, "put", err, c.class)
			_, err = st.List(t.Context(), store.ListOptions{})
			want(t, "list", err, c.class)
			for _, part := range []string{"list s3://bkt", c.code} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if store.Outcome(err) == "error" {
				t.Errorf("no outcome for %v", err)
			}
		})
	}
	t.Run("wrong region", func(t *testing.T) {
		f := newFake()
		f.lie = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Amz-Bucket-Region", "eu-north-1")
			refuse(w, 301, "PermanentRedirect", "elsewhere")
			return true
		}
		_, err := open(t, f.serve(t).URL, nil).Head(t.Context(), "k")
		if err == nil || !strings.Contains(err.Error(), "the bucket is in region eu-north-1") {
			t.Fatal(err)
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		srv := newFake().serve(t)
		st := open(t, srv.URL, func(o *s3.Options) { o.Attempts = 2 })
		srv.Close()
		_, err := st.List(t.Context(), store.ListOptions{})
		want(t, "list", err, store.ErrUnavailable)
	})
}

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
	st := open(t, f.serve(t).URL, func(o *s3.Options) { o.Timeout = 200 * time.Millisecond; o.Attempts = 2 })
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
	if len(got) != 1<<20 || time.Since(start) > 4*time.Second {
		t.Fatalf("%d bytes after %v", len(got), time.Since(start))
	}
}

// TestSlowUploadIsNotCut sends for longer than the timeout, moving all the time.
func TestSlowUploadIsNotCut(t *testing.T) {
	f := newFake()
	f.lie = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "PUT" {
			return false
		}
		buf := make([]byte, 512<<10)
		var all []byte
		for {
			n, err := io.ReadFull(r.Body, buf)
			all = append(all, buf[:n]...)
			if err != nil {
				break
			}
			time.Sleep(60 * time.Millisecond)
		}
		f.put(w, r, "k", all, r.Header)
		return true
	}
	st := open(t, f.serve(t).URL, func(o *s3.Options) { o.Timeout = 1500 * time.Millisecond; o.Attempts = 1; o.PartSize = 16 << 20 })
	start := time.Now()
	// Large beside what the kernel buffers: the wait for headers begins when all is handed to it.
	_, err := store.PutBytes(t.Context(), st, "k", make([]byte, 24<<20), store.PutOptions{})
	want(t, "put", err, nil)
	if time.Since(start) < 2*time.Second {
		t.Fatalf("took %v, which proves nothing", time.Since(start))
	}
}

// TestB30AbortedUpload cancels in the middle of an upload in parts: the parts are given back although the context has ended.
func TestB30AbortedUpload(t *testing.T) {
	for _, c := range []struct {
		name string
		op   string
		opts store.PutOptions
	}{{"at a part", "part", store.PutOptions{}}, {"at the end", "complete", store.PutOptions{IfNoneMatch: true}}} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			st := open(t, f.serve(t).URL, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.lie = times(1, c.op, func(http.ResponseWriter, *http.Request) {
				cancel()
				panic(http.ErrAbortHandler)
			})
			_, err := store.PutBytes(ctx, st, "k", make([]byte, 16<<20), c.opts)
			want(t, "put", err, context.Canceled)
			if f.openUploads() != 0 || !slices.Contains(f.ops(), "abort") {
				t.Fatalf("%d uploads left after %v", f.openUploads(), f.ops())
			}
			_, err = st.Head(t.Context(), "k")
			want(t, "head", err, store.ErrNotFound)
		})
	}
	t.Run("a body that fails", func(t *testing.T) {
		f := newFake()
		st := open(t, f.serve(t).URL, nil)
		broken := errors.New("disk on fire")
		_, err := st.Put(t.Context(), "k", &failing{ReadSeeker: bytes.NewReader(make([]byte, 16<<20)), after: 7 << 20, err: broken}, store.PutOptions{})
		want(t, "put", err, broken)
		if f.openUploads() != 0 {
			t.Fatalf("%d uploads left", f.openUploads())
		}
	})
}

// failing is a body that can only be read in order, and breaks.
type failing struct {
	io.ReadSeeker
	after int64
	err   error
}

func (f *failing) Read(p []byte) (int, error) {
	at, err := f.Seek(0, io.SeekCurrent)
	if err == nil && at >= f.after {
		err = f.err
	}
	if err != nil {
		return 0, err
	}
	return f.ReadSeeker.Read(p)
}

// TestLargeBodyInOrder uploads a body that has no ReadAt.
func TestLargeBodyInOrder(t *testing.T) {
	f := newFake()
	st := open(t, f.serve(t).URL, nil)
	body := make([]byte, 17<<20)
	for i := range body {
		body[i] = byte(i >> 13)
	}
	_, err := st.Put(t.Context(), "k", struct{ io.ReadSeeker }{bytes.NewReader(body)}, store.PutOptions{})
	want(t, "put", err, nil)
	got, _, err := store.ReadAll(t.Context(), st, "k", 1<<25, store.GetOptions{})
	want(t, "get", err, nil)
	if !bytes.Equal(got, body) {
		t.Fatal("the parts are not in order")
	}
	// A file stays open.
	path := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"f1", "f2"} {
		_, err = st.Put(t.Context(), key, file, store.PutOptions{})
		want(t, "put a file", err, nil)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestB36ChecksumTrailerRefused meets a server that does not know aws-chunked: the error says what to set, and with it, it works.
func TestB36ChecksumTrailerRefused(t *testing.T) {
	for _, c := range []struct {
		status        int
		code, message string
	}{
		{501, "NotImplemented", "A header you provided implies functionality that is not implemented"},
		{400, "InvalidArgument", "Unsupported content encoding aws-chunked"},
		{403, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed."},
	} {
		t.Run(c.code, func(t *testing.T) {
			f := newFake()
			f.lie = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Header.Get("X-Amz-Trailer") == "" && !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
					return false
				}
				_, _ = io.Copy(io.Discard, r.Body)
				refuse(w, c.status, c.code, c.message)
				return true
			}
			srv := httptest.NewTLSServer(f)
			t.Cleanup(srv.Close)
			ca := caFile(t, srv)
			st := open(t, srv.URL, func(o *s3.Options) { o.CAFile = ca })
			_, err := store.PutBytes(t.Context(), st, "k", []byte("x"), store.PutOptions{})
			want(t, "put", err, store.ErrUnsupported)
			if !strings.Contains(err.Error(), "checksum: when_required") {
				t.Fatal(err)
			}
			_, err = store.PutBytes(t.Context(), st, "k", make([]byte, 11<<20), store.PutOptions{})
			want(t, "put large", err, store.ErrUnsupported)
			st = open(t, srv.URL, func(o *s3.Options) { o.CAFile = ca; o.Checksum = s3.WhenRequired })
			for _, n := range []int{1, 11 << 20} {
				_, err = store.PutBytes(t.Context(), st, "k", make([]byte, n), store.PutOptions{})
				want(t, "put with when_required", err, nil)
			}
		})
	}
}

func caFile(t *testing.T, srv *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestB36CABundleVariable starts with AWS_CA_BUNDLE set, and trusts it.
func TestB36CABundleVariable(t *testing.T) {
	srv := httptest.NewTLSServer(newFake())
	t.Cleanup(srv.Close)
	t.Setenv("AWS_CA_BUNDLE", caFile(t, srv))
	st := open(t, srv.URL, nil)
	_, err := store.PutBytes(t.Context(), st, "k", []byte("x"), store.PutOptions{})
	want(t, "put", err, nil)
	b, _, err := store.ReadAll(t.Context(), st, "k", 10, store.GetOptions{})
	if err != nil || string(b) != "x" {
		t.Fatalf("%q, %v", b, err)
	}
}

// TestB36LongOutage calls on through an outage: attempts are bounded by the quota, and the first call after it succeeds.
func TestB36LongOutage(t *testing.T) {
	f := newFake()
	st := open(t, f.serve(t).URL, nil)
	_, err := store.PutBytes(t.Context(), st, "k", []byte("x"), store.PutOptions{})
	want(t, "put", err, nil)
	f.lie = func(w http.ResponseWriter, r *http.Request) bool { unavailable(w, r); return true }
	before := len(f.ops())
	const calls = 40
	for range calls {
		_, err := st.Head(t.Context(), "k")
		want(t, "head", err, store.ErrUnavailable)
	}
	if n := len(f.ops()) - before; n < calls || n > 2*calls {
		t.Fatalf("%d requests for %d calls", n, calls)
	}
	f.lie = nil
	_, err = st.Head(t.Context(), "k")
	want(t, "head after the outage", err, nil)
}

// TestS13ProbeRefusesServersThatIgnoreConditions strips headers as careless proxies do, and imitates servers.
func TestS13ProbeRefusesServersThatIgnoreConditions(t *testing.T) {
	strip := func(method string, headers ...string) func(http.ResponseWriter, *http.Request) bool {
		return func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == method {
				for _, h := range headers {
					r.Header.Del(h)
				}
			}
			return false
		}
	}
	for _, c := range []struct {
		name string
		lie  func(http.ResponseWriter, *http.Request) bool
		says string
	}{
		{"proxy strips everything", func(w http.ResponseWriter, r *http.Request) bool {
			r.Header.Del("If-Match")
			r.Header.Del("If-None-Match")
			return false
		}, "If-None-Match: *: silently ignored"},
		{"proxy strips If-Match", strip("PUT", "If-Match"), "If-Match of a stale ETag: silently ignored"},
		{"caching proxy", strip("GET", "If-None-Match"), "GET with If-None-Match: silently ignored"},
		{"quoted If-Match never matches", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != "PUT" || r.Header.Get("If-Match") == "" {
				return false
			}
			refuse(w, 412, "PreconditionFailed", "no")
			return true
		}, "PUT with If-Match: refused although"},
		{"not implemented", func(w http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("If-None-Match") == "" || r.Method != "PUT" {
				return false
			}
			refuse(w, 501, "NotImplemented", "no conditions here")
			return true
		}, "PUT with If-None-Match: *"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake()
			f.lie = c.lie
			st := open(t, f.serve(t).URL, func(o *s3.Options) { o.Checksum = s3.WhenRequired })
			err := store.Probe(t.Context(), st, "out/")
			want(t, "probe", err, store.ErrUnconditional)
			for _, part := range []string{c.says, "use a store that does", "s3://bkt/out/probe-"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if n := f.objects.Len(); n != 0 {
				t.Errorf("%d objects left", n)
			}
		})
	}
	t.Run("an outage proves nothing", func(t *testing.T) {
		f := newFake()
		f.lie = func(w http.ResponseWriter, r *http.Request) bool { unavailable(w, r); return true }
		err := store.Probe(t.Context(), open(t, f.serve(t).URL, func(o *s3.Options) { o.Attempts = 1 }), "out/")
		want(t, "probe", err, store.ErrUnavailable)
		if errors.Is(err, store.ErrUnconditional) {
			t.Fatal(err)
		}
	})
}

// TestDamagedBody flips a byte under the checksum that the server sends.
func TestDamagedBody(t *testing.T) {
	f := newFake()
	f.lie = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `"e"`)
		w.Header().Set("X-Amz-Checksum-Crc32", "AAAAAA==")
		w.Header().Set("Content-Length", "5")
		fmt.Fprint(w, "hello")
		return true
	}
	_, _, err := store.ReadAll(t.Context(), open(t, f.serve(t).URL, nil), "k", 10, store.GetOptions{})
	want(t, "get", err, store.ErrUnavailable)
	if !strings.Contains(err.Error(), "checksum") {
		t.Fatal(err)
	}
}
