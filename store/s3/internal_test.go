package s3

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/deltad/deltad/store"
)

func TestPartLength(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name             string
		size, configured int64
		want             int64
	}{
		{"small", 20 * mib, 8 * mib, 8 * mib},
		{"most at this length", 8 * mib * maxParts, 8 * mib, 8 * mib},
		{"one byte more", 8*mib*maxParts + 1, 8 * mib, 9 * mib},
		{"largest", maxObjectSize, 8 * mib, 525 * mib},
	} {
		got := partLength(c.size, c.configured)
		if got != c.want || (c.size+got-1)/got > maxParts {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestQuotes(t *testing.T) {
	for _, c := range []struct{ wire, plain string }{
		{`"abc"`, "abc"}, {`"abc-2"`, "abc-2"}, {`W/"abc"`, `W/"abc"`}, {`""`, ""},
	} {
		if got := unquote(c.wire); got != c.plain {
			t.Errorf("unquote %s: %s", c.wire, got)
		}
		if got := aws.ToString(quote(c.plain)); c.plain != "" && got != c.wire {
			t.Errorf("quote %s: %s", c.plain, got)
		}
	}
	if got := unquote("bare"); got != "bare" {
		t.Errorf("bare: %s", got)
	}
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-9/10", "bytes 5-5/6", "bytes */10", "bytes 9-0/10", "bytes 0-9/*", "bytes -1--1/0", "0-1/2", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, v string) {
		first, size, err := contentRange(v)
		if err == nil && (first < 0 || first >= size) {
			t.Fatalf("%q: first byte %d of %d", v, first, size)
		}
	})
}

// FuzzPage feeds names in any encoding: what is accepted is in order, inside the prefix, and decoded once.
func FuzzPage(f *testing.F) {
	f.Add("p/", "p/a", "p/b%2B", "p/c/", true)
	f.Add("", "b", "a", "x/", false)
	f.Add("p/%", "p/%25", "p/%25%", "", true)
	f.Fuzz(func(t *testing.T, prefix, a, b, c string, encoded bool) {
		out := &awss3.ListObjectsV2Output{
			Contents:       []types.Object{{Key: &a, ETag: aws.String("e")}, {Key: &b, ETag: aws.String("e")}},
			CommonPrefixes: []types.CommonPrefix{{Prefix: &c}},
		}
		if encoded {
			out.EncodingType = types.EncodingTypeUrl
		}
		p, err := page(store.ListOptions{Prefix: prefix, Delimiter: "/"}, out)
		if err != nil {
			return
		}
		if p.Objects[0].Key >= p.Objects[1].Key || !strings.HasSuffix(p.Prefixes[0], "/") {
			t.Fatalf("%+v", p)
		}
		for i, sent := range []string{a, b} {
			key := p.Objects[i].Key
			if encoded {
				sent, _ = url.QueryUnescape(sent)
			}
			if key != sent || !strings.HasPrefix(key, prefix) {
				t.Fatalf("%q became %q", sent, key)
			}
		}
	})
}

// answering is an HTTP client with one answer.
type answering struct{ resp *http.Response }

func (a answering) Do(*http.Request) (*http.Response, error) { return a.resp, nil }

// FuzzGuard gives any body for a listing: it passes unchanged, or is refused, and only a listing passes.
func FuzzGuard(f *testing.F) {
	f.Add([]byte("<ListBucketResult></ListBucketResult>"), "application/xml")
	f.Add([]byte("<html>"), "text/html")
	f.Fuzz(func(t *testing.T, body []byte, typ string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://h/b?list-type=2", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp := &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {typ}}, Body: io.NopCloser(bytes.NewReader(body))}
		got, err := guard{answering{resp}}.Do(req)
		if err != nil {
			return
		}
		defer func() { _ = got.Body.Close() }()
		b, err := io.ReadAll(got.Body)
		if err != nil || !bytes.Equal(b, body) || !bytes.Contains(body, []byte("<ListBucketResult")) {
			t.Fatalf("%q, %v", b, err)
		}
	})
}

// TestSilenceOfAConnection uploads for longer than the timeout, moving all the time, while the read that waits for the answer is not
// ended by it; then nothing moves, and it is.
func TestSilenceOfAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := &livelyConn{Conn: near, timeout: time.Second}
		answer := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			answer <- err
		}()
		go func() { // takes a byte each 600 ms
			for range 10 {
				time.Sleep(600 * time.Millisecond)
				if _, err := far.Read(make([]byte, 1)); err != nil {
					t.Error(err)
				}
			}
		}()
		for i := range 10 {
			if _, err := c.Write([]byte("x")); err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
		}
		synctest.Wait()
		select {
		case err := <-answer:
			t.Fatalf("the read ended while the upload went on: %v", err)
		default:
		}
		start := time.Now()
		if err := <-answer; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		// Nobody takes what is written.
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		if err := errors.Join(near.Close(), far.Close()); err != nil {
			t.Fatal(err)
		}
	})
}
