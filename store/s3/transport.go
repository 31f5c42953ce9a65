package s3

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"

	"github.com/deltad/deltad/store"
)

const (
	// maxPageBytes bounds a page of a listing: a thousand keys of 1,024 bytes, three times as long URL-encoded, with all their trimmings.
	maxPageBytes = 16 << 20
	// maxErrorBytes bounds the body of an error.
	maxErrorBytes = 256 << 10
)

// httpClient has the timeouts that the SDK's default lacks. The SDK's own read timeout is not used: it counts only what is received, and
// so cuts an upload that takes longer than it.
func httpClient(timeout time.Duration) *awshttp.BuildableClient {
	dialer := &net.Dialer{Timeout: timeout / 4, KeepAlive: 15 * time.Second}
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &livelyConn{Conn: c, timeout: timeout}, nil
		}
		t.TLSHandshakeTimeout = timeout / 2
		t.ResponseHeaderTimeout = timeout
		// Before livelyConn ends an idle connection: the pool takes one out without a race with the request that wants it.
		t.IdleConnTimeout = timeout / 2
		t.MaxIdleConns = 256
		t.MaxIdleConnsPerHost = 64
		t.MaxConnsPerHost = 128
	})
}

// livelyConn fails once nothing has moved in either direction for the timeout. What is written counts for reading too, since an upload
// receives nothing until it ends.
type livelyConn struct {
	net.Conn
	timeout time.Duration
}

func (c *livelyConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *livelyConn) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if err == nil {
		err = c.SetReadDeadline(time.Now().Add(c.timeout))
	}
	return n, err
}

// guard looks at answers before the SDK does, which takes any XML-like text for an empty listing and any size for granted.
type guard struct{ inner aws.HTTPClient }

func (g guard) Do(req *http.Request) (*http.Response, error) {
	resp, err := g.inner.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		resp.Body = &limited{ReadCloser: resp.Body, left: maxErrorBytes}
		return resp, nil
	}
	if req.URL.Query().Get("list-type") != "2" {
		return resp, nil
	}
	body := &limited{ReadCloser: resp.Body, left: maxPageBytes, fail: true}
	r := bufio.NewReader(body)
	head, err := r.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, closing(resp.Body, err)
	}
	if typ, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); typ == "text/html" || !bytes.Contains(head, []byte("<ListBucketResult")) {
		return nil, closing(resp.Body, &notListing{fmt.Sprintf("the answer, of type %q, begins with %.80q", typ, head)})
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{r, body}
	return resp, nil
}

// closing closes what is not read on and keeps the error that says why.
func closing(c io.Closer, err error) error {
	_ = c.Close()
	return err
}

// notListing is an answer with a good status that is not a listing. The SDK is told not to try again: a portal or a proxy's page does
// not go away within seconds.
type notListing struct{ what string }

func (e *notListing) Error() string        { return e.what }
func (e *notListing) RetryableError() bool { return false }
func (e *notListing) Unwrap() error        { return store.ErrBadListing }

// limited ends, or fails, after so many bytes.
type limited struct {
	io.ReadCloser
	left int64
	fail bool
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		if l.fail {
			return 0, &notListing{fmt.Sprintf("a page of more than %d bytes", maxPageBytes)}
		}
		return 0, io.EOF
	}
	n, err := l.ReadCloser.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
