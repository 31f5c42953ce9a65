package app

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
)

//go:embed demo.yaml
var demoConfig []byte

// demoGranule is the length of the demo's partitions.
const demoGranule = 5 * time.Second

func (c *cli) demoCommand() *cobra.Command {
	var dir, listen string
	var length time.Duration
	cmd := &cobra.Command{
		Use: "demo", Short: "everything embedded in a directory: a live stream, a live index", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if length > 0 {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, length)
				defer stop()
			}
			return c.demo(ctx, dir, listen)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "demo-data", "the directory everything is kept in")
	f.StringVar(&listen, "listen", "127.0.0.1:8480", "address of the admin endpoint; another port is taken if it is busy")
	f.DurationVar(&length, "for", 0, "end after this time; 0 runs until Ctrl-C")
	return cmd
}

func (c *cli) demo(ctx context.Context, dir, listen string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return failed(err)
	}
	for _, d := range []string{"events", "index"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return failed(err)
		}
	}
	file := filepath.Join(dir, "deltad.yaml")
	listen = freeAddress(ctx, listen)
	vars := strings.NewReplacer("${DELTAD_DEMO}", dir, "${DELTAD_DEMO_LISTEN}", listen)
	if err := os.WriteFile(file, []byte(vars.Replace(string(demoConfig))), 0o644); err != nil {
		return failed(err)
	}
	// The demo's own lines are for people; the daemon's go to a file.
	logs, err := os.OpenFile(filepath.Join(dir, "deltad.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return failed(err)
	}
	defer logs.Close()
	daemonCLI := &cli{out: io.Discard, errs: logs, fns: c.fns, config: file, output: "text", logLevel: "info"}
	a, err := daemonCLI.open(ctx, daemon.Options{})
	if err != nil {
		return err
	}
	defer a.Close()
	fmt.Fprintf(c.out, `deltad demo
  events    %[1]s/events        a file every second or so, in partitions of %[2]s
  index     %[1]s/index         CURRENT, manifests, Parquet
  settings  %[1]s/deltad.yaml
  page      http://%[3]s/       status, API and metrics
  look      %[4]s get -c %[1]s/deltad.yaml 7
            %[4]s status -c %[1]s/deltad.yaml
            %[4]s ls --sql -c %[1]s/deltad.yaml
Ctrl-C stops it.

`, dir, demoGranule, listen, os.Args[0])
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return daemonCLI.withAdmin(ctx, a) })
	g.Go(func() error { return produce(ctx, a.Pipes[0].Raw) })
	g.Go(func() error { return c.watch(ctx, a) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return failed(err)
	}
	fmt.Fprintln(c.out, "\nstopped; the run in hand was finished and the lease given back")
	return nil
}

// freeAddress returns the address, or one with a free port if it is taken.
// An address that cannot be used at all is returned as it is: the
// configuration's rules say what is wrong with it.
func freeAddress(ctx context.Context, address string) string {
	candidates := []string{address}
	if host, _, err := net.SplitHostPort(address); err == nil {
		candidates = append(candidates, net.JoinHostPort(host, "0"))
	}
	for _, c := range candidates {
		var lc net.ListenConfig
		if l, err := lc.Listen(ctx, "tcp", c); err == nil {
			free := l.Addr().String()
			if err := l.Close(); err == nil {
				return free
			}
		}
	}
	return address
}

// produce drops a file of random ad events into the current partition about
// every second, some of them late, until ctx ends.
func produce(ctx context.Context, raw store.Store) error {
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	for n := 0; ; n++ {
		now := time.Now().UTC()
		start := now.Truncate(demoGranule)
		if r.IntN(6) == 0 {
			start = start.Add(-time.Duration(1+r.IntN(6)) * demoGranule) // a late file
		}
		var body bytes.Buffer
		events := json.NewEncoder(&body)
		for range 20 + r.IntN(60) {
			if err := events.Encode(newDemoEvent(r, now)); err != nil {
				return fmt.Errorf("write events: %w", err)
			}
		}
		key := start.Format("2006/01/02/15/04/05/") + fmt.Sprintf("events-%d-%d.ndjson", now.UnixMilli(), n)
		_, err := raw.Put(ctx, key, bytes.NewReader(body.Bytes()), store.PutOptions{IfNoneMatch: true})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("write events: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(600+r.IntN(800)) * time.Millisecond):
		}
	}
}

// demoEvent is what happened to an item.
type demoEvent struct {
	Item   int       `json:"item_id"`
	At     time.Time `json:"at"`
	Title  string    `json:"title"`
	Clicks int       `json:"clicks"`
	Views  int       `json:"views"`
	Cost   float64   `json:"cost"`
	User   int       `json:"user_id"`
	Op     string    `json:"op"`
}

func newDemoEvent(r *rand.Rand, now time.Time) demoEvent {
	item, views := int(r.ExpFloat64()*12)%100, 1+r.IntN(30)
	e := demoEvent{
		Item: item, At: now.Add(-time.Duration(r.IntN(3000)) * time.Millisecond), Title: fmt.Sprintf("item %d, edition %d", item, now.Unix()/15),
		Clicks: r.IntN(1 + views/4), Views: views, Cost: float64(r.IntN(3333)) / 10_000, User: r.IntN(5000), Op: "U",
	}
	if r.IntN(400) == 0 {
		e.Op = "D"
	}
	return e
}

// watch prints, every two seconds, how old the live data is and one document.
func (c *cli) watch(ctx context.Context, a *daemon.App) error {
	p := a.Pipes[0]
	rd := p.Reader(reader.Options{})
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := rd.Poll(ctx); err != nil {
			if !errors.Is(err, reader.ErrNoIndex) && ctx.Err() == nil {
				fmt.Fprintf(c.errs, "reader: %v\n", err)
			}
			continue
		}
		if err := c.demoLine(ctx, rd.Snapshot()); err != nil && ctx.Err() == nil {
			fmt.Fprintf(c.errs, "reader: %v\n", err)
		}
	}
}

func (c *cli) demoLine(ctx context.Context, s *reader.Snapshot) error {
	doc, found, err := s.Get(ctx, "7")
	if err != nil {
		return err
	}
	text := "item 7 is deleted or not seen yet"
	if found {
		b, err := doc.MarshalJSON()
		if err != nil {
			return err
		}
		text = string(b)
	}
	age := time.Since(s.Current.Watermark.Time).Truncate(100 * time.Millisecond)
	_, err = fmt.Fprintf(c.out, "data %5s old, version %d, %d documents  %s\n", age, s.Current.Version, s.Manifest.Counts.Documents, text)
	return err
}
