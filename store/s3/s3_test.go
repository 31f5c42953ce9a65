package s3_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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
			if err != nil && (len(p.Objects) > 0 || !strings.Contains(err.Error(), "list s3://bkt/p/: "+c.class.Error())) {
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
			for _, part := range []string{c.says, "use a store that does", "s3://bkt/out/_probe-"} {
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
		_, _ = io.WriteString(w, "hello")
		return true
	}
	_, _, err := store.ReadAll(t.Context(), open(t, f.serve(t).URL, nil), "k", 10, store.GetOptions{})
	want(t, "get", err, store.ErrUnavailable)
	if !strings.Contains(err.Error(), "checksum") {
		t.Fatal(err)
	}
}
