package daemon

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/robfig/cron/v3"

	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/column"
	"github.com/deltad/deltad/microbatch/combine"
	"github.com/deltad/deltad/microbatch/full"
	"github.com/deltad/deltad/microbatch/index"
	"github.com/deltad/deltad/microbatch/layers"
	"github.com/deltad/deltad/microbatch/scan"
	"github.com/deltad/deltad/microbatch/source"
	"github.com/deltad/deltad/microbatch/window"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/reader"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/open"
	"github.com/deltad/deltad/store/s3"
)

// Pipe is one configured pipeline with its stores open.
type Pipe struct {
	Config *configs.Pipeline
	// Raw is the source's store, Out the output's, each rooted at its URL.
	Raw, Out store.Store
	Source   *source.Source
	Sink     *sink.Sink
	// Hash is the configuration's.
	Hash string

	settings microbatch.Settings
	full     *full.Settings // nil without a full index
	metrics  *Metrics
}

// Pipeline returns a pipeline that remembers nothing; each serves one
// goroutine.
func (p *Pipe) Pipeline() *microbatch.Pipeline { return microbatch.New(p.settings) }

// served is a pipeline that stands for its lease through state and says when it
// takes steps.
func (p *Pipe) served(state microbatch.State, busy func() func()) *microbatch.Pipeline {
	set := p.settings
	set.State, set.Busy = state, busy
	return microbatch.New(set)
}

// Reader returns a reader of the output.
func (p *Pipe) Reader(o reader.Options) *reader.Reader { return reader.Open(p.Out, o) }

// Schedule is the pipeline's trigger.
func (p *Pipe) Schedule() (cron.Schedule, error) {
	t := p.Config.Trigger
	if t.Every > 0 {
		return cron.Every(t.Every), nil
	}
	loc, err := time.LoadLocation(t.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("trigger.time_zone: %w", err)
	}
	return configs.ParseCron(t.Cron, loc)
}

// specOf is the index of a configuration as the engine takes it.
func specOf(c configs.Index) index.Spec {
	spec := index.Spec{
		Key: c.Key, EventTime: index.EventTime{Column: c.EventTime.Column, Unit: c.EventTime.Unit},
		Where: c.Where, DeleteWhen: c.DeleteWhen,
	}
	for _, f := range c.Fields {
		spec.Fields = append(spec.Fields, fieldSpec(f))
	}
	return spec
}

func fieldSpec(f configs.Field) index.FieldSpec {
	out := index.FieldSpec{Name: f.Name, Where: f.Where, Over: f.Over, Optional: f.Optional}
	if f.Fn == configs.FnExpr {
		out.Expr = f.Expr
		return out
	}
	out.Fn, out.Args, out.Params, out.DeleteWhen = f.Fn, f.Args(), f.Options(), f.DeleteWhen
	for _, sub := range f.Fields {
		out.Fields = append(out.Fields, fieldSpec(sub))
	}
	return out
}

// Compile checks a pipeline's index against the combine fns there are.
func Compile(c *configs.Pipeline, fns map[string]combine.Builder) (*index.Program, error) {
	program, err := index.Compile(specOf(c.Index), fns)
	if err != nil {
		return nil, fmt.Errorf("pipelines.%s: %w", c.Name, err)
	}
	return program, nil
}

// openPipe opens a pipeline's stores. It sends nothing.
func (a *App) openPipe(ctx context.Context, c *configs.Pipeline) (*Pipe, error) {
	p := &Pipe{Config: c, Hash: hashOf(c, a.options.Combiners), metrics: a.Metrics}
	var err error
	if p.Raw, err = a.openStore(ctx, c.Source.URL, c.Source.S3, s3.Options{}); err != nil {
		return nil, fmt.Errorf("pipelines.%s.source.url: %w", c.Name, err)
	}
	out := c.Output.S3
	if p.Out, err = a.openStore(ctx, c.Output.URL, out.S3, s3.Options{SSEKMSKeyID: out.SSEKMSKeyID, ACL: out.ACL, Tags: out.Tags}); err != nil {
		return nil, fmt.Errorf("pipelines.%s.output.url: %w", c.Name, err)
	}
	layout, err := c.Layout()
	if err != nil {
		return nil, fmt.Errorf("pipelines.%s.source.layout: %w", c.Name, err)
	}
	if p.Source, err = source.New(p.Raw, source.Options{Layout: layout, Prefixes: c.Source.Prefixes, Eligibility: c.Eligibility()}); err != nil {
		return nil, fmt.Errorf("pipelines.%s.source.%w", c.Name, err)
	}
	p.Sink = sink.New(sink.Settings{Store: p.Out, Pipeline: c.Name, NewID: a.NewID})
	if p.settings, err = a.settings(p, layout); err != nil {
		return nil, err
	}
	p.full, err = a.rebuildSettings(p)
	return p, err
}

// settings translates the configuration for the engine.
func (a *App) settings(p *Pipe, layout *partition.Layout) (microbatch.Settings, error) {
	c := p.Config
	program, err := Compile(c, a.options.Combiners)
	if err != nil {
		return microbatch.Settings{}, err
	}
	format, err := scan.ParseFormat(c.Source.Format)
	if err != nil {
		return microbatch.Settings{}, fmt.Errorf("pipelines.%s.source.format: %w", c.Name, err)
	}
	row := scan.Fail
	if c.Errors.Row == configs.ErrorsReject {
		row = scan.Reject
	}
	set := microbatch.Settings{
		Observe: a.Metrics.Observe, Busy: a.gate.enter, Combiners: a.options.Combiners,
		Name: c.Name, Calendar: layout.Calendar, ConfigHash: p.Hash, Program: program, Format: format, Row: row,
		Rule:         window.Rule{Size: c.Window.Size, Longest: c.LongestOver(), Max: c.WindowMax(), OnGap: c.GapPolicy()},
		ObjectErrors: c.Errors.Object, SkipAfter: c.Errors.SkipAfter, MaxRejectShare: float64(c.Errors.RejectLimit),
		Guards: microbatch.Guards{
			MinDocuments: c.Guards.MinDocuments, MaxDocuments: c.Guards.MaxDocuments,
			MaxShrink: float64(c.Guards.MaxShrink), MaxGrowth: float64(c.Guards.MaxGrowth),
		},
		Layers:  layers.Settings{Above: int64(c.Output.Layers.Above), Most: c.Output.Layers.Max},
		Retain:  sink.Retain{For: c.Output.Retain.For, Panes: c.Output.Retain.Panes, Bases: c.Output.Retain.Bases},
		Timeout: c.Trigger.Timeout, Workers: a.budget.workers, NoCache: a.options.NoCache,
		Memory: a.budget.spools, TableBytes: a.budget.table, WindowBytes: a.budget.window, BuildBytes: a.budget.build, ScanLimits: a.budget.scan, CacheBytes: a.budget.slices, TempDir: a.budget.dir,
		Lister: p.Source, Sink: p.Sink, State: a.State,
		Open: func(o partition.Object) (scan.Blob, map[string]string) {
			return source.NewBlob(p.Raw, o), pathValues(p.Source.PathColumns(o.Key))
		},
		Documents: func(ctx context.Context, m sink.Manifest, emit func(*column.Batch) error) error {
			return reader.Pane(ctx, p.Out, m, emit)
		},
		Probe: func(ctx context.Context) error { return Probe(ctx, p) },
		Log:   a.Log, NewID: a.NewID, Build: a.options.Build, Instance: a.Instance,
		LeaseTTL: a.options.LeaseTTL, Grace: a.options.Grace, Trace: a.options.Trace,
	}
	set.KeepSlices, set.ObserveSlices = true, a.Metrics.ObserveSlices
	if a.sliceDir != nil {
		set.SliceDir = a.sliceDir.Scope(sliceScope(p))
	}
	if f := c.Full; f != nil {
		set.Full, set.Since, set.SupportPrevious, set.RebuildOnStale = true, f.Since, f.SupportPreviousFor, f.OnStale == configs.StaleRebuild
	}
	return set, nil
}

// sliceScope names the pipeline's place in the directory of slices: what tells
// versions of objects apart does so within one source.
func sliceScope(p *Pipe) string {
	sum := sha256.Sum256([]byte(p.Raw.String()))
	return p.Config.Name + "-" + hex.EncodeToString(sum[:8])
}

func pathValues(columns []partition.Column) map[string]string {
	if len(columns) == 0 {
		return nil
	}
	out := make(map[string]string, len(columns))
	for _, c := range columns {
		out[c.Name] = c.Value
	}
	return out
}

// openStore opens a URL with the client options of the configuration; own are
// those that only the output has.
func (a *App) openStore(ctx context.Context, url string, c configs.S3, own s3.Options) (store.Store, error) {
	own.Region, own.Endpoint, own.PathStyle, own.Profile = c.Region, c.Endpoint, c.PathStyle, c.Profile
	own.RoleARN, own.ExternalID, own.RequesterPays = c.RoleARN, c.ExternalID, c.RequesterPays
	own.ExpectedOwner, own.CAFile, own.Checksum = c.ExpectedOwner, c.CAFile, c.Checksum
	st, err := open.Open(ctx, url, open.Options{S3: own, Mem: a.options.Mem})
	if err != nil {
		return nil, err
	}
	return store.Metered(st, a.Metrics.ObserveStore), nil
}

// ids makes ULIDs that ascend within this process.
type ids struct {
	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
}

func newIDs() *ids { return &ids{entropy: ulid.Monotonic(rand.Reader, 0)} }

func (g *ids) next() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return ulid.MustNew(ulid.Now(), g.entropy).String()
}
