//go:build integration

// Package page looks at deltad's status page in a real browser.
package page

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/deltad/deltad/e2e/binary"
)

// browser is the path of a Chromium; there must be one.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{os.Getenv("DELTAD_CHROMIUM"), "chromium-headless-shell", "chromium", "google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	t.Fatal("there is no Chromium: .ci/browser installs one, or name the binary in DELTAD_CHROMIUM")
	return ""
}

// deltad is the binary under test, set once by TestMain.
var deltad string

func TestMain(m *testing.M) {
	os.Exit(binary.Rig{Name: "page", Builds: map[*string]binary.Build{&deltad: {}}}.Main(m))
}

// demo starts `deltad demo` and returns the page's address.
func demo(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(deltad, "demo", "--dir", filepath.Join(t.TempDir(), "demo"), "--listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := binary.Start(t, cmd)
	t.Cleanup(func() {
		p.Signal(syscall.SIGINT)
		if code := p.Wait(30 * time.Second); code != 0 {
			t.Errorf("the demo ended with %v", p.Cmd.ProcessState)
		}
	})
	address := make(chan string, 1)
	go func() {
		page := regexp.MustCompile(`http://[0-9.]+:[0-9]+/`)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if m := page.FindString(lines.Text()); m != "" {
				select {
				case address <- m:
				default:
				}
			}
		}
	}()
	select {
	case a := <-address:
		return a
	case <-time.After(30 * time.Second):
		t.Fatal("the demo did not say where its page is")
		return ""
	}
}

// complaints collects what the browser reports as wrong with the page.
type complaints struct {
	mu  sync.Mutex
	all []string
}

// listen reads the console of the tab until ctx ends.
func (c *complaints) listen(ctx context.Context) {
	for m, err := range chromedp.Console(ctx) {
		if err != nil {
			return
		}
		if m.IsException() || m.Type == "error" || m.Type == "warning" {
			c.mu.Lock()
			c.all = append(c.all, m.String())
			c.mu.Unlock()
		}
	}
}

// TestPageShowsTheLiveIndex opens the page of a running demo and sees what a
// person would: an age that counts by itself, a watermark that moves without
// a reload, documents and runs, at desktop and at phone width, and no
// complaint of the browser.
func TestPageShowsTheLiveIndex(t *testing.T) {
	address := demo(t)
	waitUntilUp(t, address)
	ctx, wrong := tab(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(address)); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "documents", func() (bool, string) {
		n, _ := strconv.Atoi(strings.ReplaceAll(text(ctx, t, "#ads-documents"), " ", ""))
		return n > 0, strconv.Itoa(n)
	})
	before := text(ctx, t, "#ads-watermark")
	until(ctx, t, "a newer watermark without a reload", func() (bool, string) {
		now := text(ctx, t, "#ads-watermark")
		return now > before, now
	})
	age := text(ctx, t, "#ads-age")
	until(ctx, t, "an age that counts", func() (bool, string) {
		now := text(ctx, t, "#ads-age")
		return now != age && now != "", now
	})
	rows, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll("#ads-runs tbody tr[data-status=published]").length`))
	if err != nil || rows == 0 {
		t.Errorf("%d published runs in the table, %v", rows, err)
	}
	for name, width := range map[string]int64{"desktop": 1280, "phone": 390} {
		if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 844)); err != nil {
			t.Fatal(err)
		}
		overflow, err := chromedp.Run(ctx, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > document.documentElement.clientWidth`))
		if err != nil || overflow {
			t.Errorf("%s: the page is wider than the screen: %v, %v", name, overflow, err)
		}
	}
	wrong.none(t)
}

// tab opens a tab of a browser that ends with the test, and collects what it
// complains about.
func tab(t *testing.T) (context.Context, *complaints) {
	t.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser(t)), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-quic", true), chromedp.UserDataDir(t.TempDir()))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(stop)
	ctx, stop := chromedp.NewContext(alloc)
	t.Cleanup(stop)
	ctx, stop = context.WithTimeout(ctx, 90*time.Second)
	t.Cleanup(stop)
	wrong := &complaints{}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
		t.Fatal(err)
	}
	go wrong.listen(ctx)
	return ctx, wrong
}

// none fails the test for each complaint.
func (c *complaints) none(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, complaint := range c.all {
		t.Errorf("the browser complains: %s", complaint)
	}
}

func text(ctx context.Context, t *testing.T, selector string) string {
	t.Helper()
	s, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.querySelector("`+selector+`")?.textContent ?? ""`))
	if err != nil {
		t.Fatalf("text of %s: %v", selector, err)
	}
	return strings.TrimSpace(s)
}

func until(ctx context.Context, t *testing.T, what string, ok func() (bool, string)) {
	t.Helper()
	last := ""
	for range 150 {
		var done bool
		if done, last = ok(); done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("the page never showed %s in time; last %q", what, last)
		case <-time.After(200 * time.Millisecond):
		}
	}
	t.Fatalf("the page never showed %s; last %q", what, last)
}

func waitUntilUp(t *testing.T, address string) {
	t.Helper()
	var err error
	for range 100 {
		var r *http.Response
		if r, err = http.Get(address + "healthz"); err == nil {
			err = errors.Join(r.Body.Close())
			if err == nil && r.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatalf("the page does not answer: %v", err)
}
