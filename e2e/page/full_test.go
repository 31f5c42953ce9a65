//go:build integration

package page

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/deltad/deltad/e2e/binary"
)

// served starts a daemon whose pipeline has a full index and 40 partitions, and
// returns the page's address.
func served(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "deltad.yaml")
	body := fmt.Sprintf(`
state: {url: "sqlite://%[1]s/state.db"}
admin: {listen: %[2]q}
pipelines:
  ads:
    source: {url: "file://%[1]s/raw", layout: "%%Y/%%m/%%d/%%H/%%M", format: ndjson}
    trigger: {every: 1s}
    window: {size: 10m}
    index: {key: [item], fields: {n: {count: "*", over: all}}}
    full: {promote: manual}
    output: {url: "file://%[1]s/out"}
`, dir, address)
	if err := os.WriteFile(config, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now().UTC().Truncate(time.Minute).Add(-50 * time.Minute)
	for n := range 40 {
		at := filepath.Join(dir, "raw", begin.Add(time.Duration(n)*time.Minute).Format("2006/01/02/15/04"))
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "a.ndjson"), fmt.Appendf(nil, "{\"item\":\"i%d\"}\n", n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := binary.Start(t, exec.Command(deltad, "run", "-c", config))
	t.Cleanup(func() {
		p.Signal(syscall.SIGTERM)
		if code := p.Wait(30 * time.Second); code != 0 {
			t.Errorf("the daemon ended with %v", p.Cmd.ProcessState)
		}
	})
	return "http://" + address + "/"
}

func post(t *testing.T, url string, want int) (v map[string]any) {
	t.Helper()
	r, err := http.Post(url, "application/json", strings.NewReader(`{"reason":"a test of the page"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&v); err != nil || r.StatusCode != want {
		t.Fatalf("POST %s: %d, want %d: %v (%v)", url, r.StatusCode, want, v, err)
	}
	return v
}

// TestPageShowsTheFullIndex: without a reload the page goes from no base over a
// rebuild and its candidate to the base that was promoted.
func TestPageShowsTheFullIndex(t *testing.T) {
	address := served(t)
	waitUntilUp(t, address)
	ctx, wrong := tab(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "documents", func() (bool, string) {
		n := text(ctx, t, "#ads-documents")
		return n == "10", n
	})
	if cut, next := text(ctx, t, "#ads-base-cut"), text(ctx, t, "#ads-next"); cut != "none yet" || next != "by hand" {
		t.Errorf("before the first base it says %q and %q", cut, next)
	}
	api := address + "api/v1/pipelines/ads"
	id := post(t, api+"/rebuilds", http.StatusAccepted)["id"].(string)
	until(ctx, t, "the candidate", func() (bool, string) {
		says := text(ctx, t, "#ads-gate")
		return strings.Contains(says, id) && strings.Contains(says, "waits to be promoted"), says
	})
	post(t, api+"/bases/"+id+"/promote", http.StatusOK)
	until(ctx, t, "the base", func() (bool, string) {
		cut := text(ctx, t, "#ads-base-cut")
		return text(ctx, t, "#ads-base") == id && strings.Contains(cut, "old"), cut
	})
	hidden, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.querySelector("#ads-gate").hidden && document.querySelector("#ads-rebuild").hidden && !document.querySelector("#ads-full").hidden`))
	if err != nil || !hidden {
		t.Errorf("nothing waits any more, and the page still says so: %q, %q (%v)", text(ctx, t, "#ads-gate"), text(ctx, t, "#ads-rebuild"), err)
	}
	wrong.none(t)
}
