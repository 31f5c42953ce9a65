package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// rebuildView is one rebuild. Ratio is about how far it is, from 0 to 1; of one
// that failed or was called off, how far it was.
type rebuildView struct {
	ID              string                 `json:"id"`
	State           watermark.RebuildState `json:"state"`
	Cause           string                 `json:"cause"`
	Due             *time.Time             `json:"due"`
	Phase           string                 `json:"phase"`
	Done            int64                  `json:"done"`
	Total           int64                  `json:"total"`
	Rows            int64                  `json:"rows"`
	Ratio           float64                `json:"ratio"`
	CancelRequested bool                   `json:"cancel_requested"`
	Cut             *time.Time             `json:"cut"`
	Documents       int64                  `json:"documents"`
	Manifest        *manifestView          `json:"manifest"`
	Checks          []sink.CheckResult     `json:"checks"`
	Approved        bool                   `json:"approved"`
	Overrides       []string               `json:"overrides"`
	PromotedBy      string                 `json:"promoted_by,omitempty"`
	Actor           string                 `json:"actor"`
	Reason          string                 `json:"reason"`
	Instance        string                 `json:"instance,omitempty"`
	Error           string                 `json:"error,omitempty"`
	CreatedAt       *time.Time             `json:"created_at"`
	StartedAt       *time.Time             `json:"started_at"`
	FinishedAt      *time.Time             `json:"finished_at"`
}

func rebuildOf(r watermark.Rebuild) rebuildView {
	v := rebuildView{
		ID: r.ID, State: r.State, Cause: r.Cause, Due: at(r.Due), Phase: r.Phase, Done: r.Done, Total: r.Total, Rows: r.Rows,
		Ratio: daemon.RebuildRatio(watermark.RebuildProgress{Phase: r.Phase, Done: r.Done, Total: r.Total}), CancelRequested: r.CancelRequested, Cut: at(r.ActualCut), Documents: r.Documents, Manifest: manifestOf(r.Manifest),
		Checks: []sink.CheckResult{}, Approved: r.Approved, Overrides: append([]string{}, r.Overrides...), PromotedBy: r.PromotedBy,
		Actor: r.Actor, Reason: r.Reason, Instance: r.Instance, Error: r.Error, CreatedAt: at(r.CreatedAt), StartedAt: at(r.StartedAt), FinishedAt: at(r.FinishedAt),
	}
	if v.Cut == nil {
		v.Cut = at(r.Cut)
	}
	if len(r.Checks) > 0 && json.Unmarshal(r.Checks, &v.Checks) != nil {
		v.Checks = []sink.CheckResult{} // what a later build checks is not for this one
	}
	return v
}

func rebuildOrNil(r *watermark.Rebuild) *rebuildView {
	if r == nil {
		return nil
	}
	v := rebuildOf(*r)
	return &v
}

// fullView is where the full index of a pipeline stands. Generation, Cut, Age
// and Stale are of the live base, as this process last saw it; without one they
// are empty.
type fullView struct {
	Generation string     `json:"generation,omitempty"`
	Cut        *time.Time `json:"cut"`
	Age        *float64   `json:"age_seconds"`
	Stale      int64      `json:"stale_objects"`
	// Rebuild is queued or running, Candidate waits to be promoted, Held waits at
	// the gate for a person; null where there is none.
	Rebuild   *rebuildView `json:"rebuild"`
	Candidate *rebuildView `json:"candidate"`
	Held      *rebuildView `json:"held"`
	Barred    []barView    `json:"barred"`
	Next      *time.Time   `json:"next_rebuild"`
}

type barView struct {
	Generation string     `json:"generation"`
	By         string     `json:"by"`
	Reason     string     `json:"reason"`
	At         *time.Time `json:"at"`
}

// full gathers where the full index stands; null without one. The live base is
// that of this process's last step; one that takes none, because it only
// rebuilds, reads CURRENT.
func (s *Server) full(ctx context.Context, p *daemon.Pipe, last *microbatch.Report, now time.Time) (*fullView, error) {
	if p.Config.Full == nil {
		return nil, nil
	}
	v, c := &fullView{Barred: []barView{}}, control.Of(s.o.App, p)
	r, err := c.Rebuilding(ctx, now)
	if err != nil {
		return nil, err
	}
	switch {
	case last != nil:
		v.Generation, v.Cut, v.Stale = last.Base, at(last.Cut), last.Stale
	case s.o.App.OnlyRebuilds():
		ask, stop := context.WithTimeout(ctx, readyTime)
		defer stop()
		if live, err := c.LiveBase(ask); err == nil && live != nil { // else readiness says what is wrong
			v.Generation, v.Cut, v.Stale = live.Generation, at(live.Cut.Time), live.StaleCount
		}
	}
	v.Next, v.Rebuild, v.Candidate, v.Held = at(r.Next), rebuildOrNil(r.Open), rebuildOrNil(r.Candidate), rebuildOrNil(r.Held)
	if v.Cut != nil {
		age := now.Sub(*v.Cut).Seconds()
		v.Age = &age
	}
	for _, b := range r.Bars {
		v.Barred = append(v.Barred, barView{b.Generation, b.Actor, b.Reason, at(b.At)})
	}
	return v, nil
}

// rebuild queues a rebuild for whoever makes them: 202, or 409 with the id of
// the one that is open.
func (s *Server) rebuild(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	var body struct {
		asked
		Cut instant `json:"cut"`
	}
	if err := decode(r, &body); err != nil {
		return err
	}
	rb, err := control.Of(s.o.App, p).Rebuild(r.Context(), control.RebuildRequest{Change: body.change(r), Cut: body.Cut.Time})
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/v1/pipelines/"+p.Config.Name+"/rebuilds/"+rb.ID)
	return answer(w, http.StatusAccepted, rebuildOf(rb))
}

func (s *Server) rebuilds(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	limit, before, err := newestFirst(r)
	if err != nil {
		return err
	}
	all, err := s.o.App.State.Rebuilds(r.Context(), p.Config.Name, limit, before)
	if err != nil {
		return err
	}
	out := struct {
		Rebuilds []rebuildView `json:"rebuilds"`
		// Before asks for the rebuilds before these; null at the end.
		Before *string `json:"next_before"`
	}{Rebuilds: []rebuildView{}}
	for _, rb := range all {
		out.Rebuilds = append(out.Rebuilds, rebuildOf(rb))
	}
	if len(all) == limit {
		out.Before = &all[len(all)-1].ID
	}
	return answer(w, http.StatusOK, out)
}

func (s *Server) rebuildByID(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	rb, err := control.Of(s.o.App, p).RebuildByID(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, rebuildOf(rb))
}

// cancelRebuild answers 200 where it has ended, or 202 where whoever makes it was
// asked to end it.
func (s *Server) cancelRebuild(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	var body asked
	if err := decode(r, &body); err != nil {
		return err
	}
	rb, err := control.Of(s.o.App, p).CancelRebuild(r.Context(), r.PathValue("id"), body.change(r))
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !control.Ended(rb) {
		status = http.StatusAccepted
	}
	return answer(w, status, rebuildOf(rb))
}

// baseView is one generation.
type baseView struct {
	control.Base
	Cut       *time.Time `json:"cut"`
	Supported *time.Time `json:"supported_until"`
	Created   *time.Time `json:"created_at"`
	Finished  *time.Time `json:"finished_at"`
}

func (s *Server) bases(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	q, err := parameters(r, "limit")
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	all, err := control.Of(s.o.App, p).Bases(r.Context(), time.Now(), limit)
	if err != nil {
		return err
	}
	out := struct {
		Bases []baseView `json:"bases"`
	}{Bases: []baseView{}}
	for _, b := range all {
		out.Bases = append(out.Bases, baseView{b, at(b.Cut), at(b.Supported), at(b.Created), at(b.Finished)})
	}
	return answer(w, http.StatusOK, out)
}

// promote answers 200 where the base is live, or 202 where it is approved and
// waits for a run.
func (s *Server) promote(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	var body struct {
		asked
		Overrides []string `json:"override"`
	}
	wait, err := waitOf(r)
	if err == nil {
		err = decode(r, &body)
	}
	if err != nil {
		return err
	}
	done, err := control.Of(s.o.App, p).Promote(r.Context(), control.PromoteRequest{
		Change: body.change(r), Generation: r.PathValue("g"), Overrides: body.Overrides, Wait: wait,
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !done.Live {
		status = http.StatusAccepted
	}
	return answer(w, status, done)
}

func (s *Server) planRollback(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	if err := decode(r, &struct{}{}); err != nil {
		return err
	}
	plan, err := control.Of(s.o.App, p).PlanRollback(r.Context(), time.Now(), control.Target{Generation: r.PathValue("g")})
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(plan.Version))
	return answer(w, http.StatusOK, plan)
}

// applyRollback answers 200 where the rollback has come about, or 202 with the
// intent's location where it is still on its way.
func (s *Server) applyRollback(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	var body struct {
		asked
		Digest string `json:"digest"`
	}
	wait, err := waitOf(r)
	if err == nil {
		err = decode(r, &body)
	}
	if err != nil {
		return err
	}
	in, err := control.Of(s.o.App, p).Rollback(r.Context(), time.Now(), control.RollbackRequest{
		Change: body.change(r), Target: control.Target{Generation: r.PathValue("g")}, Digest: body.Digest, Version: ifMatch(r), Wait: wait,
	})
	return s.decided(w, r, p, in, err)
}

// instant is a time in a body; absent it is the zero time.
type instant struct{ time.Time }

// UnmarshalJSON reads RFC 3339, and says so where it is not.
func (t *instant) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	if err == nil {
		t.Time, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return refusal(control.InvalidField, "cut", "must be an RFC 3339 time such as 2026-11-30T10:00:00Z, got %s", b)
	}
	return nil
}
