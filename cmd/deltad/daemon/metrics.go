package daemon

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/microbatch/shelf"
	"github.com/deltad/deltad/store"
)

// Metrics are the process's series. All of them exist from the start, at zero,
// so that an alarm on a rate never waits for the first event.
type Metrics struct {
	registry *prometheus.Registry

	runs        *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	watermark   *prometheus.GaugeVec
	uncovered   *prometheus.GaugeVec
	quarantined *prometheus.GaugeVec
	late        *prometheus.CounterVec
	leader      *prometheus.GaugeVec
	epoch       *prometheus.GaugeVec
	documents   *prometheus.GaugeVec
	lagging     *prometheus.GaugeVec
	skipped     *prometheus.GaugeVec
	panics      *prometheus.CounterVec
	differences *prometheus.CounterVec
	requests    *prometheus.CounterVec
	slices      *prometheus.CounterVec
	storeBytes  *prometheus.CounterVec
	storeTime   *prometheus.HistogramVec

	baseCut         *prometheus.GaugeVec
	baseStale       *prometheus.GaugeVec
	gateHeld        *prometheus.GaugeVec
	rebuilds        *prometheus.CounterVec
	rebuildProgress *prometheus.GaugeVec
	rebuildTime     *prometheus.HistogramVec

	mu struct {
		sync.Mutex
		last map[string]microbatch.Report
		// live is the last report that knew of a pane: an outage hides CURRENT and
		// makes nothing younger.
		live map[string]microbatch.Report
		all  []string // the pipelines
	}
}

var outcomes = [...]microbatch.Outcome{
	microbatch.Advanced, microbatch.Refined, microbatch.WasIdle, microbatch.Standby, microbatch.WasHeld, microbatch.Failed,
}

// NewMetrics returns metrics with a registry of their own.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.mu.last, m.mu.live = map[string]microbatch.Report{}, map[string]microbatch.Report{}
	p := []string{"pipeline"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, p)
		m.registry.MustRegister(v)
		return v
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(v)
		return v
	}
	m.runs = counter("deltad_runs_total", "Steps by how they ended.", "pipeline", "outcome")
	m.duration = histogram("deltad_run_duration_seconds", "How long a step took.", prometheus.ExponentialBuckets(0.005, 2, 16), "pipeline")
	m.watermark = gauge("deltad_watermark_timestamp_seconds", "Start of the newest partition committed.")
	m.uncovered = gauge("deltad_uncovered_partitions", "Partitions in the gaps that the live pane names.")
	m.quarantined = gauge("deltad_quarantined_partitions", "Partitions seen and never used for progress.")
	m.late = counter("deltad_late_objects_total", "Objects that came after every rule of coverage.", "pipeline")
	m.leader = gauge("deltad_leader", "1 where this process leads the pipeline.")
	m.epoch = gauge("deltad_epoch", "Epoch of this process's last lease.")
	m.documents = gauge("deltad_documents", "Documents of the live pane.")
	m.lagging = gauge("deltad_lagging_prefixes", "Prefixes whose newest partition is more than half a window behind.")
	m.skipped = gauge("deltad_skipped_objects", "Objects that the live pane leaves out, because they could not be read or by hand.")
	m.panics = counter("deltad_panics_total", "Steps and rebuilds that ended in a panic; each failed alone.", "pipeline")
	m.differences = counter("deltad_canary_differences_total", "Runs whose canary came to other bytes; the second in a row pauses the pipeline.", "pipeline")
	m.baseCut = gauge("deltad_base_cut_timestamp_seconds", "Cut of the live base: the newest partition it includes; 0 without one.")
	m.baseStale = gauge("deltad_base_stale_objects", "Objects that the live base read and that were replaced or are gone since.")
	m.gateHeld = gauge("deltad_gate_held", "1 while a rebuild that did not pass the gate waits for a person.")
	m.rebuilds = counter("deltad_rebuilds_total", "Rebuilds that ended in this process, by what they ended as.", "pipeline", "state")
	m.rebuildProgress = gauge("deltad_rebuild_progress_ratio", "How far the rebuild is that this process makes, 0 to 1; 0 without one.")
	m.rebuildTime = histogram("deltad_rebuild_duration_seconds", "How long rebuilds took that ended in this process.", prometheus.ExponentialBuckets(1, 2.5, 12), "pipeline")
	m.requests = counter("deltad_store_requests_total", "Calls of object stores.", "op", "outcome")
	m.storeBytes = counter("deltad_store_bytes_total", "Bytes of bodies read from and offered to object stores.", "op")
	m.storeTime = histogram("deltad_store_request_duration_seconds", "How long calls of object stores took.", prometheus.ExponentialBuckets(0.001, 2.5, 12), "op")
	m.slices = counter("deltad_slice_cache_requests_total", "Slices that were looked for and kept, by tier and outcome; a hit of the tier objects is one whose objects were read.", "tier", "outcome")
	for tier, outcomes := range sliceOutcomes() {
		for _, o := range outcomes {
			m.slices.WithLabelValues(tier, o)
		}
	}
	for _, op := range store.Ops {
		m.storeBytes.WithLabelValues(op)
		m.storeTime.WithLabelValues(op)
		for _, o := range store.Outcomes {
			m.requests.WithLabelValues(op, o)
		}
	}
	m.registry.MustRegister(&ages{m}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Register makes the series of a pipeline.
func (m *Metrics) Register(pipeline string) {
	m.mu.Lock()
	m.mu.all = append(m.mu.all, pipeline)
	m.mu.Unlock()
	for _, o := range outcomes {
		m.runs.WithLabelValues(pipeline, string(o))
	}
	m.duration.WithLabelValues(pipeline)
	m.late.WithLabelValues(pipeline)
	m.panics.WithLabelValues(pipeline)
	m.differences.WithLabelValues(pipeline)
	for _, g := range []*prometheus.GaugeVec{m.watermark, m.uncovered, m.quarantined, m.leader, m.epoch, m.documents, m.lagging, m.skipped, m.baseCut, m.baseStale, m.gateHeld, m.rebuildProgress} {
		g.WithLabelValues(pipeline)
	}
	for _, s := range rebuildEnds {
		m.rebuilds.WithLabelValues(pipeline, string(s))
	}
	m.rebuildTime.WithLabelValues(pipeline)
}

// Observe takes a step's report in. One without an epoch is of a process that
// does not lead: it stands by, or could not ask for the lease.
func (m *Metrics) Observe(r microbatch.Report) {
	m.runs.WithLabelValues(r.Pipeline, string(r.Outcome)).Inc()
	if r.Epoch == 0 {
		m.leader.WithLabelValues(r.Pipeline).Set(0)
	} else {
		m.duration.WithLabelValues(r.Pipeline).Observe(r.Duration.Seconds())
		m.leader.WithLabelValues(r.Pipeline).Set(1)
		m.epoch.WithLabelValues(r.Pipeline).Set(float64(r.Epoch))
		m.late.WithLabelValues(r.Pipeline).Add(float64(r.Late))
	}
	if r.ListCalls > 0 { // else the step did not come to look
		m.quarantined.WithLabelValues(r.Pipeline).Set(float64(r.Quarantined))
		m.lagging.WithLabelValues(r.Pipeline).Set(float64(len(r.Lagging)))
	}
	if errors.Is(r.Err, microbatch.ErrPanic) {
		m.panics.WithLabelValues(r.Pipeline).Inc()
	}
	if errors.Is(r.Err, microbatch.ErrCanary) {
		m.differences.WithLabelValues(r.Pipeline).Inc()
	}
	if !r.Watermark.IsZero() {
		m.watermark.WithLabelValues(r.Pipeline).Set(float64(r.Watermark.Unix()))
		m.uncovered.WithLabelValues(r.Pipeline).Set(float64(r.Uncovered))
		m.documents.WithLabelValues(r.Pipeline).Set(float64(r.Documents))
		m.skipped.WithLabelValues(r.Pipeline).Set(float64(r.Skipped))
		cut := 0.0
		if r.Base != "" {
			cut = float64(r.Cut.Unix())
		}
		m.baseCut.WithLabelValues(r.Pipeline).Set(cut)
		m.baseStale.WithLabelValues(r.Pipeline).Set(float64(r.Stale))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.last[r.Pipeline] = r
	if !r.Watermark.IsZero() {
		m.mu.live[r.Pipeline] = r
	}
}

// Last is the newest report of a pipeline; ok is false before the first.
func (m *Metrics) Last(pipeline string) (r microbatch.Report, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok = m.mu.last[pipeline]
	return r, ok
}

// ObserveStore takes one call of a store in.
func (m *Metrics) ObserveStore(op, outcome string, elapsed time.Duration, bytes int64) {
	m.requests.WithLabelValues(op, outcome).Inc()
	m.storeBytes.WithLabelValues(op).Add(float64(max(0, bytes)))
	m.storeTime.WithLabelValues(op).Observe(elapsed.Seconds())
}

// sliceOutcomes are the outcomes that the tiers of slices have.
func sliceOutcomes() map[string][]string {
	kept := []string{shelf.Hit, shelf.Miss, shelf.Damaged, shelf.Failed, shelf.Stored}
	return map[string][]string{
		microbatch.TierMemory: {shelf.Hit, shelf.Miss}, shelf.TierDirectory: kept, shelf.TierBucket: kept, microbatch.TierObjects: {shelf.Hit},
	}
}

// ObserveSlices takes in where slices came from, or went.
func (m *Metrics) ObserveSlices(tier, outcome string, n int) {
	m.slices.WithLabelValues(tier, outcome).Add(float64(n))
}

// Handler serves the series.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// ages are the series that grow by themselves between steps.
type ages struct{ m *Metrics }

var (
	dataAge = prometheus.NewDesc("deltad_data_age_seconds", "Now less the watermark: how old the newest data in the live pane is.", []string{"pipeline"}, nil)
	baseAge = prometheus.NewDesc("deltad_base_age_seconds", "Now less the cut of the base; 0 without one.", []string{"pipeline"}, nil)
)

// Describe implements prometheus.Collector.
func (a *ages) Describe(ch chan<- *prometheus.Desc) { ch <- dataAge; ch <- baseAge }

// Collect implements prometheus.Collector.
func (a *ages) Collect(ch chan<- prometheus.Metric) {
	a.m.mu.Lock()
	defer a.m.mu.Unlock()
	for _, name := range a.m.mu.all {
		r, age := a.m.mu.live[name], 0.0
		if !r.Watermark.IsZero() {
			ch <- prometheus.MustNewConstMetric(dataAge, prometheus.GaugeValue, time.Since(r.Watermark).Seconds(), name)
		}
		if r.Base != "" {
			age = time.Since(r.Cut).Seconds()
		}
		ch <- prometheus.MustNewConstMetric(baseAge, prometheus.GaugeValue, age, name)
	}
}
