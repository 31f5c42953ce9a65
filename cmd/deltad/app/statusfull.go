package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// fullStatus is where the full index of a pipeline stands. Base is null without
// a live one.
type fullStatus struct {
	Base *baseStatus `json:"base"`
	// Rebuild is queued or running, Candidate waits to be promoted, Held waits at
	// the gate for a person; null where there is none.
	Rebuild   *rebuildLine `json:"rebuild"`
	Candidate *rebuildLine `json:"candidate"`
	Approved  bool         `json:"candidate_approved"`
	Held      *rebuildLine `json:"held"`
	// Failure is the newest rebuild where it failed.
	Failure *rebuildLine  `json:"last_failed"`
	Failed  []checkStatus `json:"held_checks"`
	Barred  []barStatus   `json:"barred"`
	Next    *string       `json:"next_rebuild"`
}

type baseStatus struct {
	Generation string        `json:"generation"`
	Cut        *string       `json:"cut"`
	Age        float64       `json:"age_seconds"`
	Stale      int64         `json:"stale_objects"`
	Supports   []supportLine `json:"supports"`
}

type supportLine struct {
	Generation string  `json:"generation"`
	Cut        *string `json:"cut"`
	Until      *string `json:"until"`
}

type checkStatus struct {
	Name   string `json:"name"`
	Detail string `json:"detail"`
}

type barStatus struct {
	Generation string `json:"generation"`
	By         string `json:"by"`
	Reason     string `json:"reason"`
}

// configStatus says which configuration this command has, which one the live
// pane was made with, and which one a replica was given last.
type configStatus struct {
	Here    string  `json:"here"`
	Live    string  `json:"live,omitempty"`
	Newest  string  `json:"newest,omitempty"`
	Replica string  `json:"newest_replica,omitempty"`
	Since   *string `json:"newest_since"`
}

// fullOf fills in the full index: its rebuilds by the state store, its base by
// the live pane, which is nil where it could not be read.
func (s *status) fullOf(ctx context.Context, a *daemon.App, p *daemon.Pipe, live *sink.Manifest) error {
	if p.Config.Full == nil {
		return nil
	}
	now := time.Now()
	b, err := control.Of(a, p).Rebuilding(ctx, now)
	if err != nil {
		return err
	}
	newest, err := a.State.Rebuilds(ctx, p.Config.Name, 1, "")
	if err != nil {
		return err
	}
	s.Full = &fullStatus{Barred: []barStatus{}, Failed: []checkStatus{}, Next: whenOrNull(b.Next)}
	if live != nil && live.Base != nil {
		l := live.Base
		s.Full.Base = &baseStatus{
			Generation: l.Generation, Cut: whenOrNull(l.Cut.Time), Age: now.Sub(l.Cut.Time).Seconds(), Stale: l.StaleCount, Supports: []supportLine{},
		}
		for _, o := range live.Supporting(now) {
			s.Full.Base.Supports = append(s.Full.Base.Supports, supportLine{o.Generation, whenOrNull(o.Cut.Time), whenOrNull(o.Until.Time)})
		}
	}
	if len(newest) > 0 && newest[0].State == watermark.RebuildFailed {
		l := rebuildLineOf(newest[0])
		s.Full.Failure = &l
	}
	line := func(r *watermark.Rebuild) *rebuildLine {
		if r == nil {
			return nil
		}
		l := rebuildLineOf(*r)
		return &l
	}
	s.Full.Rebuild, s.Full.Candidate, s.Full.Held = line(b.Open), line(b.Candidate), line(b.Held)
	s.Full.Approved = b.Candidate != nil && b.Candidate.Approved
	if b.Held != nil {
		failed, err := control.FailedChecks(*b.Held)
		if err != nil {
			return err
		}
		for _, c := range failed {
			s.Full.Failed = append(s.Full.Failed, checkStatus{c.Name, c.Detail})
		}
	}
	for _, bar := range b.Bars {
		s.Full.Barred = append(s.Full.Barred, barStatus{bar.Generation, bar.Actor, bar.Reason})
	}
	return nil
}

// standingFull prints where the full index stands.
func (c *cli) standingFull(s status) {
	if n := s.Config.Newest; n != "" && n != s.Config.Here {
		fmt.Fprintf(c.out, "  another configuration was given to %s at %s: replicas with this one let it lead\n", s.Config.Replica, *s.Config.Since)
	}
	f := s.Full
	if f == nil {
		return
	}
	if b := f.Base; b != nil {
		fmt.Fprintf(c.out, "  base %s, cut at %s (%s old)", b.Generation, *b.Cut, time.Duration(b.Age*float64(time.Second)).Round(time.Second))
		for _, o := range b.Supports {
			fmt.Fprintf(c.out, ", fits %s until %s", o.Generation, *o.Until)
		}
		if b.Stale > 0 {
			fmt.Fprintf(c.out, ", %d objects of it replaced or gone", b.Stale)
		}
		fmt.Fprintln(c.out)
	} else if s.OutputError == "" {
		fmt.Fprintln(c.out, "  no base yet")
	}
	for _, r := range []*rebuildLine{f.Rebuild, f.Failure} {
		if r != nil {
			fmt.Fprintf(c.out, "  %s\n", strings.TrimPrefix(r.String(), s.Pipeline+": "))
		}
	}
	if r := f.Candidate; r != nil && f.Approved {
		fmt.Fprintf(c.out, "  candidate %s, cut at %s, %d documents: the leader's next run promotes it\n", r.ID, *r.Cut, r.Documents)
	} else if r != nil {
		fmt.Fprintf(c.out, "  candidate %s, cut at %s, %d documents: waits for `deltad base promote`\n", r.ID, *r.Cut, r.Documents)
	}
	if r := f.Held; r != nil {
		fmt.Fprintf(c.out, "  held by the gate: %s, cut at %s\n", r.ID, *r.Cut)
		for _, check := range f.Failed {
			fmt.Fprintf(c.out, "    %s: %s\n", check.Name, check.Detail)
		}
	}
	for _, b := range f.Barred {
		fmt.Fprintf(c.out, "  barred from promotion: %s, by %s: %s\n", b.Generation, b.By, b.Reason)
	}
	if f.Next != nil {
		fmt.Fprintf(c.out, "  next rebuild at %s\n", *f.Next)
	}
}

// planBases prints what a plan has to do with bases.
func (c *cli) planBases(p microbatch.Plan) {
	if len(p.Bases) == 0 {
		return
	}
	verb := "over"
	if p.Promote {
		verb = "promotes"
	}
	fmt.Fprintf(c.out, "  %s base %s", verb, p.Bases[0])
	if len(p.Bases) > 1 {
		fmt.Fprintf(c.out, ", fits %s too", strings.Join(p.Bases[1:], ", "))
	}
	if len(p.Stale) > 0 {
		fmt.Fprintf(c.out, "; %d objects that it read were replaced or are gone", len(p.Stale))
	}
	fmt.Fprintln(c.out)
}
