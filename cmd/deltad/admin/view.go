package admin

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/watermark"
)

// at is a time for JSON; the zero time is null.
func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

type manifestView struct {
	Key    string `json:"key"`
	SHA256 string `json:"sha256"`
}

func manifestOf(m watermark.ManifestRef) *manifestView {
	if m.Key == "" {
		return nil
	}
	return &manifestView{m.Key, m.SHA256}
}

// watermarkView is the row of a pipeline.
type watermarkView struct {
	Pipeline       string        `json:"pipeline"`
	Watermark      *time.Time    `json:"watermark"`
	Progress       *time.Time    `json:"progress"`
	Version        int64         `json:"version"`
	CurrentVersion int64         `json:"current_version"`
	RunID          string        `json:"run_id,omitempty"`
	Manifest       *manifestView `json:"manifest"`
	Paused         bool          `json:"paused"`
	Pause          *pauseView    `json:"pause"`
	UpdatedAt      *time.Time    `json:"updated_at"`
}

type pauseView struct {
	Reason string     `json:"reason"`
	By     string     `json:"by"`
	At     *time.Time `json:"at"`
}

func watermarkOf(p watermark.Pipeline) watermarkView {
	v := watermarkView{
		Pipeline: p.Name, Watermark: at(p.Watermark), Progress: at(p.Progress), Version: p.Version, CurrentVersion: p.CurrentVersion,
		RunID: p.RunID, Manifest: manifestOf(p.Manifest), Paused: p.Paused, UpdatedAt: at(p.UpdatedAt),
	}
	if p.Paused {
		v.Pause = &pauseView{p.PauseReason, p.PausedBy, at(p.PausedAt)}
	}
	return v
}

// runView is one run of the journal.
type runView struct {
	ID                string              `json:"id"`
	Kind              watermark.RunKind   `json:"kind"`
	Status            watermark.RunStatus `json:"status"`
	Reason            string              `json:"reason"`
	Epoch             int64               `json:"epoch"`
	Instance          string              `json:"instance"`
	PreviousWatermark *time.Time          `json:"previous_watermark"`
	Watermark         *time.Time          `json:"watermark"`
	CoverageFrom      *time.Time          `json:"coverage_from"`
	PlannedAt         *time.Time          `json:"planned_at"`
	FinishedAt        *time.Time          `json:"finished_at"`
	Manifest          *manifestView       `json:"manifest"`
	CurrentVersion    int64               `json:"current_version"`
	Documents         int64               `json:"documents"`
	Late              int64               `json:"late"`
	Counts            sink.Counts         `json:"counts"`
	ConfigHash        string              `json:"config_hash"`
	Error             string              `json:"error,omitempty"`
}

func runOf(r watermark.Run) runView {
	v := runView{
		ID: r.ID, Kind: r.Kind, Status: r.Status, Reason: r.Reason, Epoch: r.Epoch, Instance: r.Instance,
		PreviousWatermark: at(r.PreviousWatermark), Watermark: at(r.Watermark), CoverageFrom: at(r.CoverageFrom),
		PlannedAt: at(r.PlannedAt), FinishedAt: at(r.FinishedAt), Manifest: manifestOf(r.Manifest),
		CurrentVersion: r.CurrentVersion, Documents: r.Documents, Late: r.Late, ConfigHash: r.ConfigHash, Error: r.Error,
	}
	if len(r.Counts) > 0 && json.Unmarshal(r.Counts, &v.Counts) != nil {
		v.Counts = sink.Counts{} // what a later build counts is not for this one
	}
	return v
}

// entryView is one line of the ledger.
type entryView struct {
	Partition   time.Time  `json:"partition"`
	State       string     `json:"state"`
	RunID       string     `json:"run_id"`
	Objects     int        `json:"objects"`
	Fingerprint string     `json:"fingerprint"`
	Note        string     `json:"note,omitempty"`
	UpdatedAt   *time.Time `json:"updated_at"`
}

func entryOf(e watermark.LedgerEntry) entryView {
	return entryView{e.Partition.UTC(), e.State, e.RunID, e.Objects, e.Fingerprint, e.Note, at(e.UpdatedAt)}
}

// auditView is one line of the audit trail.
type auditView struct {
	Seq     int64           `json:"seq"`
	At      *time.Time      `json:"at"`
	ID      string          `json:"id"`
	Actor   string          `json:"actor"`
	Action  string          `json:"action"`
	Reason  string          `json:"reason"`
	Details json.RawMessage `json:"details"`
}

func auditOf(e watermark.AuditEntry) auditView {
	return auditView{e.Seq, at(e.At), e.ID, e.Actor, e.Action, e.Reason, e.Details}
}

// intentView is one reset or rollback on its way. To is of a reset; Pane, Bar
// and Pause are of a rollback.
type intentView struct {
	ID             string                `json:"id"`
	Pipeline       string                `json:"pipeline"`
	Kind           watermark.IntentKind  `json:"kind"`
	To             *time.Time            `json:"to"`
	Pane           *manifestView         `json:"pane,omitempty"`
	Bar            string                `json:"bar,omitempty"`
	Pause          bool                  `json:"pause,omitempty"`
	State          watermark.IntentState `json:"state"`
	Note           string                `json:"note,omitempty"`
	Digest         string                `json:"digest"`
	Actor          string                `json:"actor"`
	Reason         string                `json:"reason"`
	AcceptDataLoss bool                  `json:"accept_data_loss"`
	Plan           json.RawMessage       `json:"plan"`
	CreatedAt      *time.Time            `json:"created_at"`
	FinishedAt     *time.Time            `json:"finished_at"`
}

func intentOf(in watermark.Intent) intentView {
	return intentView{
		in.ID, in.Pipeline, in.Kind, at(in.Target), manifestOf(in.Pane), in.Bar, in.Pause, in.State, in.Note, in.Digest, in.Actor, in.Reason, in.AcceptDataLoss, in.Details,
		at(in.CreatedAt), at(in.FinishedAt),
	}
}

// leaderView is who may write.
type leaderView struct {
	Instance string `json:"instance"`
	Epoch    int64  `json:"epoch"`
	Live     bool   `json:"live"`
	// Here says that it is this process.
	Here bool `json:"here"`
}

// stepView is the last step of this process.
type stepView struct {
	Outcome microbatch.Outcome `json:"outcome"`
	Why     string             `json:"why"`
	Seconds float64            `json:"seconds"`
	Error   string             `json:"error,omitempty"`
}

type prefixView struct {
	Prefix string     `json:"prefix"`
	Newest *time.Time `json:"newest"`
}

// pipelineView is what there is to know of one pipeline.
type pipelineView struct {
	watermarkView
	DataAge     *float64    `json:"data_age_seconds"`
	PublishedAt *time.Time  `json:"published_at"`
	Documents   int64       `json:"documents"`
	Counts      sink.Counts `json:"counts"`
	// GapPartitions are in the gaps that the live pane names, Quarantined were
	// seen by the last step, LateObjects are in what the state store keeps or were
	// found by this process and wait for a publication that enters them there.
	GapPartitions int          `json:"gap_partitions"`
	Quarantined   int          `json:"quarantined_partitions"`
	LateObjects   int64        `json:"late_objects"`
	Leader        *leaderView  `json:"leader"`
	LastStep      *stepView    `json:"last_step"`
	Runs          []runView    `json:"runs"`
	PendingResets []intentView `json:"pending_resets"`
	Prefixes      []prefixView `json:"prefixes"`
	// Full is where the full index stands; null where there is none.
	Full *fullView `json:"full"`
	// Starting says why the pipeline does not run in this process; null where
	// it does. While the state store is waited for the rest is not known.
	Starting *startView `json:"starting"`
}

// startView is what a pipeline waits for before its first step here.
type startView struct {
	WaitingFor string `json:"waiting_for"` // "state store" or "output"
	Error      string `json:"error"`
	Refused    bool   `json:"refused"` // for good: the output cannot be published to
}

// shownRuns is how many runs a pipelineView has.
const shownRuns = 8

func emptyView(row watermarkView) pipelineView {
	return pipelineView{watermarkView: row, Runs: []runView{}, PendingResets: []intentView{}, Prefixes: []prefixView{}}
}

// view gathers what there is to know of a pipeline from the state store and
// from this process's own last step.
func (s *Server) view(ctx context.Context, p *daemon.Pipe, now time.Time) (pipelineView, error) {
	state, name := s.o.App.State, p.Config.Name
	var starting *startView
	if st, ok := s.o.App.Standing(name); ok {
		starting = &startView{WaitingFor: st.Waiting, Error: waiting(st).Error(), Refused: st.Refused}
		if st.Waiting == daemon.StateStore {
			v := emptyView(watermarkView{Pipeline: name})
			v.Starting = starting
			return v, nil // nothing is there to ask
		}
	}
	row, err := control.Of(s.o.App, p).Row(ctx)
	if err != nil {
		return pipelineView{}, err
	}
	v := emptyView(watermarkOf(row))
	v.Starting = starting
	lease, err := state.LeaseStatus(ctx, name, watermark.RoleDelta)
	switch {
	case errors.Is(err, watermark.ErrNotFound):
	case err != nil:
		return pipelineView{}, err
	default:
		v.Leader = &leaderView{lease.Holder, lease.Epoch, lease.Live, lease.Live && lease.Holder == s.o.App.Instance}
	}
	if v.LateObjects, err = state.CountLate(ctx, name); err != nil {
		return pipelineView{}, err
	}
	if err := s.viewRuns(ctx, &v, name); err != nil {
		return pipelineView{}, err
	}
	pending, err := state.PendingIntents(ctx, name)
	if err != nil {
		return pipelineView{}, err
	}
	for _, in := range pending {
		v.PendingResets = append(v.PendingResets, intentOf(in))
	}
	var last *microbatch.Report
	if r, ok := s.o.App.Metrics.Last(name); ok {
		last = &r
		v.take(r)
	}
	if v.Full, err = s.full(ctx, p, last, now); err != nil {
		return pipelineView{}, err
	}
	if v.Watermark != nil {
		age := now.Sub(*v.Watermark).Seconds()
		v.DataAge = &age
	}
	return v, nil
}

func (s *Server) viewRuns(ctx context.Context, v *pipelineView, name string) error {
	runs, err := s.o.App.State.Runs(ctx, name, shownRuns, "")
	if err != nil {
		return err
	}
	published := watermark.Run{}
	for _, r := range runs {
		v.Runs = append(v.Runs, runOf(r))
		if r.Status == watermark.RunPublished && published.ID == "" {
			published = r
		}
	}
	if published.ID == "" {
		published, err = s.o.App.State.LatestPublished(ctx, name)
		if errors.Is(err, watermark.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	pv := runOf(published)
	v.Documents, v.Counts, v.PublishedAt = pv.Documents, pv.Counts, pv.FinishedAt
	return nil
}

// take adds what this process's last step found.
func (v *pipelineView) take(r microbatch.Report) {
	step := stepView{Outcome: r.Outcome, Why: r.Why, Seconds: r.Duration.Seconds()}
	if r.Err != nil {
		step.Error = r.Err.Error()
	}
	v.LastStep = &step
	v.GapPartitions, v.Quarantined = r.Uncovered, r.Quarantined
	v.LateObjects += r.LateWaiting
	for _, p := range r.Prefixes {
		pv := prefixView{Prefix: p.Prefix}
		if p.Newest != nil {
			pv.Newest = at(*p.Newest)
		}
		v.Prefixes = append(v.Prefixes, pv)
	}
	if !r.PublishedAt.IsZero() {
		v.PublishedAt = at(r.PublishedAt)
	}
}
