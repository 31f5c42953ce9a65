package s3_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/mem"
	"github.com/deltad/deltad/store/s3"
)

// fake is an S3 server on a mem.Store: enough of the protocol for the client's tests, and a place to put lies. It speaks for the
// client's half of the conversation; real servers judge it under the integration tag.
type fake struct {
	objects *mem.Store
	// lie, if set, may answer a request instead; it returns whether it did.
	lie func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	requests []request
	meta     map[string]http.Header // by key and ETag
	uploads  map[string]map[int][]byte
	upload   map[string]http.Header
	seq      int
}

type request struct {
	op     string
	header http.Header
	query  url.Values
}

func newFake() *fake {
	return &fake{objects: mem.New("fake"), meta: map[string]http.Header{}, uploads: map[string]map[int][]byte{}, upload: map[string]http.Header{}}
}

// serve starts the server; open gives a client of it.
func (f *fake) serve(t *testing.T) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return srv
}

func open(t *testing.T, endpoint string, change func(*s3.Options)) *s3.Store {
	t.Helper()
	isolate(t)
	o := s3.Options{
		Bucket: "bkt", Region: "us-east-1", Endpoint: endpoint, PathStyle: true, PartSize: 5 << 20, Timeout: 10 * time.Second,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	}
	if change != nil {
		change(&o)
	}
	st, err := s3.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// isolate keeps a developer's own settings out.
func isolate(t *testing.T) {
	t.Helper()
	for k, v := range map[string]string{
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
		"AWS_ENDPOINT_URL": "", "AWS_ENDPOINT_URL_S3": "", "AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
		"HTTP_PROXY": "", "HTTPS_PROXY": "", "http_proxy": "", "https_proxy": "",
	} {
		t.Setenv(k, v)
	}
}

func (f *fake) ops() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var l []string
	for _, r := range f.requests {
		l = append(l, r.op)
	}
	return l
}

// last is the newest request of an operation.
func (f *fake) last(t *testing.T, op string) request {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range slices.Backward(f.requests) {
		if r.op == op {
			return r
		}
	}
	t.Fatalf("no %s was sent", op)
	return request{}
}

// openUploads is how many multipart uploads were neither completed nor aborted.
func (f *fake) openUploads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.uploads)
}

func name(r *http.Request, key string) string {
	q := r.URL.Query()
	switch {
	case q.Get("list-type") == "2":
		return "list"
	case r.Method == "POST" && q.Has("uploads"):
		return "create"
	case r.Method == "POST":
		return "complete"
	case r.Method == "PUT" && q.Has("partNumber"):
		return "part"
	case r.Method == "DELETE" && q.Has("uploadId"):
		return "abort"
	case key == "":
		return "bucket"
	}
	return strings.ToLower(r.Method)
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	op := name(r, key)
	f.mu.Lock()
	f.requests = append(f.requests, request{op, r.Header.Clone(), r.URL.Query()})
	f.mu.Unlock()
	if f.lie != nil && f.lie(w, r) {
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		body = unchunk(body)
	}
	switch op {
	case "list":
		f.list(w, r)
	case "get", "head":
		f.get(w, r, key)
	case "put":
		f.put(w, r, key, body, r.Header)
	case "delete":
		_ = f.objects.Delete(r.Context(), key)
		w.WriteHeader(http.StatusNoContent)
	default:
		f.multipart(w, r, op, key, body)
	}
}

// unchunk takes the framing of aws-chunked off.
func unchunk(b []byte) []byte {
	var out []byte
	for {
		size, rest, ok := bytes.Cut(b, []byte("\r\n"))
		hex, _, _ := bytes.Cut(size, []byte(";"))
		n, err := strconv.ParseInt(string(hex), 16, 64)
		if !ok || err != nil || n == 0 || n+2 > int64(len(rest)) {
			return out
		}
		out, b = append(out, rest[:n]...), rest[n+2:]
	}
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if status != http.StatusNotModified {
		_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
	}
}

func refuseFor(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, store.ErrNotFound):
		refuse(w, 404, "NoSuchKey", "no such key")
	case errors.Is(err, store.ErrPrecondition):
		refuse(w, 412, "PreconditionFailed", "precondition failed")
	case errors.Is(err, store.ErrNotModified):
		refuse(w, 304, "", "")
	case errors.Is(err, store.ErrRange):
		refuse(w, 416, "InvalidRange", "no such range")
	default:
		refuse(w, 400, "InvalidArgument", "refused")
	}
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, _ := strconv.Atoi(q.Get("max-keys"))
	p, err := f.objects.List(r.Context(), store.ListOptions{
		Prefix: q.Get("prefix"), StartAfter: q.Get("start-after"), Delimiter: q.Get("delimiter"), Token: q.Get("continuation-token"), MaxKeys: limit,
	})
	if err != nil {
		refuseFor(w, err)
		return
	}
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><EncodingType>url</EncodingType>`)
	fmt.Fprintf(&b, "<IsTruncated>%v</IsTruncated>", p.NextToken != "")
	if p.NextToken != "" {
		fmt.Fprintf(&b, "<NextContinuationToken>%s</NextContinuationToken>", p.NextToken)
	}
	for _, o := range p.Objects {
		fmt.Fprintf(&b, "<Contents><Key>%s</Key><LastModified>%s</LastModified><ETag>&quot;%s&quot;</ETag><Size>%d</Size></Contents>",
			url.QueryEscape(o.Key), o.LastModified.Format("2006-01-02T15:04:05.000Z"), o.ETag, o.Size)
	}
	for _, c := range p.Prefixes {
		fmt.Fprintf(&b, "<CommonPrefixes><Prefix>%s</Prefix></CommonPrefixes>", url.QueryEscape(c))
	}
	b.WriteString("</ListBucketResult>")
	w.Header().Set("Content-Type", "application/xml")
	_, _ = io.WriteString(w, b.String())
}

func (f *fake) get(w http.ResponseWriter, r *http.Request, key string) {
	o := store.GetOptions{IfMatch: strings.Trim(r.Header.Get("If-Match"), `"`), IfNoneMatch: strings.Trim(r.Header.Get("If-None-Match"), `"`)}
	ranged := r.Header.Get("Range") != ""
	if from, to, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"); ok && from == "" {
		n, _ := strconv.ParseInt(to, 10, 64)
		o.Offset = -n
	} else if ok {
		o.Offset, _ = strconv.ParseInt(from, 10, 64)
		if last, err := strconv.ParseInt(to, 10, 64); err == nil {
			o.Length = last - o.Offset + 1
		}
	}
	obj, err := f.objects.Get(r.Context(), key, o)
	if err != nil {
		refuseFor(w, err)
		return
	}
	f.mu.Lock()
	for k, v := range f.meta[key+"\n"+obj.Info.ETag] {
		w.Header()[k] = v
	}
	f.mu.Unlock()
	w.Header().Set("ETag", `"`+obj.Info.ETag+`"`)
	w.Header().Set("Last-Modified", obj.Info.LastModified.Format(http.TimeFormat))
	w.Header().Set("Content-Length", strconv.FormatInt(obj.Length, 10))
	if ranged {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", obj.Offset, obj.Offset+obj.Length-1, obj.Info.Size))
		w.WriteHeader(http.StatusPartialContent)
	}
	if r.Method == "GET" {
		_, _ = io.Copy(w, obj.Body)
	}
}

func (f *fake) put(w http.ResponseWriter, r *http.Request, key string, body []byte, meta http.Header) {
	etag, err := store.PutBytes(r.Context(), f.objects, key, body, store.PutOptions{
		IfNoneMatch: r.Header.Get("If-None-Match") == "*", IfMatch: strings.Trim(r.Header.Get("If-Match"), `"`),
	})
	if err != nil && r.Header.Get("If-Match") != "" {
		if _, herr := f.objects.Head(r.Context(), key); herr != nil {
			err = herr // as Amazon does: a swap of nothing is 404
		}
	}
	if err != nil {
		refuseFor(w, err)
		return
	}
	kept := http.Header{}
	for k, v := range meta {
		if strings.HasPrefix(k, "X-Amz-Meta-") {
			kept[k] = v
		}
	}
	f.mu.Lock()
	f.meta[key+"\n"+etag] = kept
	f.mu.Unlock()
	w.Header().Set("ETag", `"`+etag+`"`)
	if r.Method == "POST" {
		_, _ = fmt.Fprintf(w, `<CompleteMultipartUploadResult><ETag>&quot;%s&quot;</ETag></CompleteMultipartUploadResult>`, etag)
	}
}

func (f *fake) multipart(w http.ResponseWriter, r *http.Request, op, key string, body []byte) {
	id := r.URL.Query().Get("uploadId")
	f.mu.Lock()
	parts, meta, known := f.uploads[id], f.upload[id], f.uploads[id] != nil
	f.mu.Unlock()
	if op != "create" && !known {
		refuse(w, 404, "NoSuchUpload", "no such upload")
		return
	}
	switch op {
	case "create":
		f.mu.Lock()
		f.seq++
		id = "upload-" + strconv.Itoa(f.seq)
		f.uploads[id], f.upload[id] = map[int][]byte{}, r.Header.Clone()
		f.mu.Unlock()
		_, _ = fmt.Fprintf(w, "<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>", id)
	case "part":
		n, _ := strconv.Atoi(r.URL.Query().Get("partNumber"))
		f.mu.Lock()
		parts[n] = body
		f.mu.Unlock()
		w.Header().Set("ETag", fmt.Sprintf(`"part-%d"`, n))
	case "complete":
		var in struct {
			Part []struct{ PartNumber int }
		}
		if err := xml.Unmarshal(body, &in); err != nil {
			refuse(w, 400, "MalformedXML", err.Error())
			return
		}
		var all []byte
		f.mu.Lock()
		for _, p := range in.Part {
			all = append(all, parts[p.PartNumber]...)
		}
		f.mu.Unlock()
		rec := httptest.NewRecorder()
		if f.put(rec, r, key, all, meta); rec.Code == 200 {
			f.forget(id)
		}
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	case "abort":
		f.forget(id)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (f *fake) forget(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.uploads, id)
	delete(f.upload, id)
}
