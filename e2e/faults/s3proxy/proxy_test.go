package s3proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/faults/s3proxy"
)

const page = `<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a/1</Key></Contents><Contents><Key>a/2</Key></Contents></ListBucketResult>`

// server answers listings with a page and everything else with ten digits.
func server(t *testing.T) (url string, seen *atomic.Int32) {
	t.Helper()
	seen = &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		if r.URL.Query().Has("list-type") {
			_, _ = fmt.Fprint(w, page)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err == nil && len(body) > 0 {
			_, err = w.Write(body)
		} else {
			_, _ = fmt.Fprint(w, "0123456789")
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, seen
}

// ask sends one request on a connection of its own.
func ask(method, url, body string) (status int, got string, err error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func TestFaults(t *testing.T) {
	t.Parallel()
	const list = "/bucket?list-type=2&prefix=a/"
	for _, c := range []struct {
		name         string
		fault        s3proxy.Fault
		method, path string
		body         string
		status       int
		want         string // part of the body
		broken       bool   // the client sees an error
		served       int32  // requests that reached the server
	}{
		{"refused", s3proxy.SlowDown(), "GET", "/bucket/k", "", 503, "SlowDown", false, 0},
		{"500 after it was applied", s3proxy.AppliedInternal(), "GET", "/bucket/k", "", 500, "InternalError", false, 1},
		{"reset before", s3proxy.ResetBefore(), "GET", "/bucket/k", "", 0, "", true, 0},
		{"reset after", s3proxy.ResetAfter(), "GET", "/bucket/k", "", 0, "", true, 1},
		{"truncated", s3proxy.Truncated(), "GET", "/bucket/k", "", 200, "01234", true, 1},
		{"corrupted", s3proxy.Corrupted(), "GET", "/bucket/k", "", 200, "0123446789", false, 1},
		{"corrupted upload", s3proxy.CorruptedUpload(), "PUT", "/bucket/k", "abc", 200, "acc", false, 1},
		{"page", s3proxy.HTML(), "GET", list, "", 200, "sign in", false, 0},
		{"no token", s3proxy.NoToken(), "GET", list, "", 200, "<IsTruncated>true</IsTruncated><Contents>", false, 1},
		{"same token", s3proxy.SameToken(), "GET", list, "", 200, "<NextContinuationToken>again<", false, 1},
		{"missing", s3proxy.Missing(func(k string) bool { return k == "a/1" }), "GET", list, "", 200, "</IsTruncated><Contents><Key>a/2<", false, 1},
		{"stalled", s3proxy.Stalled(time.Minute), "GET", "/bucket/k", "", 0, "", true, 1},
		{"stalled body", s3proxy.StalledBody(time.Minute), "GET", "/bucket/k", "", 200, "01234", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url, seen := server(t)
			p, err := s3proxy.New(url)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			p.Add(s3proxy.Rule{Fault: c.fault, Times: 1})
			status, body, err := ask(c.method, p.URL+c.path, c.body)
			if status != c.status || !strings.Contains(body, c.want) || (err != nil) != c.broken || seen.Load() != c.served {
				t.Errorf("%d %q (%v), %d reached the server", status, body, err, seen.Load())
			}
			if status, _, err := ask(c.method, p.URL+c.path, c.body); status != 200 || err != nil {
				t.Errorf("the next request: %d (%v)", status, err)
			}
			if log := p.Take(); len(log) != 2 || log[0].Fault != c.fault.Name || log[1].Fault != "" || p.Clear() != 1 {
				t.Errorf("log %v", log)
			}
		})
	}
}

// TestSeed: the same requests meet the same faults.
func TestSeed(t *testing.T) {
	url, _ := server(t)
	p, err := s3proxy.New(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	run := func(seed uint64) (met string) {
		p.Seed(seed)
		p.Add(s3proxy.Rule{Fault: s3proxy.Internal(), P: 0.5, Match: func(r s3proxy.Request) bool { return r.Op == s3proxy.Get && r.Key == "a b" }})
		for range 40 {
			status, _, err := ask("GET", p.URL+"/bucket/a%20b", "")
			if err != nil {
				t.Fatal(err)
			}
			met += fmt.Sprint(status/500, " ")
		}
		p.Clear()
		return met
	}
	first := run(7)
	if second := run(7); first != second || !strings.Contains(first, "0") || !strings.Contains(first, "1") {
		t.Errorf("%s\nthen %s", first, second)
	}
	if first == run(8) {
		t.Error("another seed makes no difference")
	}
}
