package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/partition"
	"github.com/deltad/deltad/watermark"
)

// handler answers one request or returns the error that does.
type handler func(w http.ResponseWriter, r *http.Request) error

// routes is every path and what may be done to it.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	on := func(path string, methods map[string]handler) { mux.Handle(path, s.methods(methods)) }
	get := func(path string, h handler) { on(path, map[string]handler{http.MethodGet: h}) }
	post := func(path string, h handler) { on(path, map[string]handler{http.MethodPost: h}) }

	get("/{$}", s.page)
	get("/assets/{file}", s.asset)
	get("/healthz", s.healthz)
	get("/readyz", s.readyz)
	get("/metrics", func(w http.ResponseWriter, r *http.Request) error {
		s.o.App.Metrics.Handler().ServeHTTP(w, r)
		return nil
	})

	get("/api/v1/pipelines", s.pipelines)
	const p = "/api/v1/pipelines/{p}"
	get(p, s.piped(s.pipeline))
	get(p+"/runs", s.piped(s.runs))
	get(p+"/partitions", s.piped(s.partitions))
	get(p+"/watermark", s.piped(s.watermark))
	get(p+"/audit", s.piped(s.audit))
	get(p+"/intents/{id}", s.piped(s.intent))
	post(p+"/pause", s.piped(s.pause))
	post(p+"/resume", s.piped(s.resume))
	post(p+"/trigger", s.piped(s.trigger))
	post(p+"/watermark/plan", s.piped(s.plan))
	post(p+"/watermark/apply", s.piped(s.apply))
	on(p+"/rebuilds", map[string]handler{http.MethodGet: s.piped(s.rebuilds), http.MethodPost: s.piped(s.rebuild)})
	get(p+"/rebuilds/{id}", s.piped(s.rebuildByID))
	post(p+"/rebuilds/{id}/cancel", s.piped(s.cancelRebuild))
	get(p+"/bases", s.piped(s.bases))
	post(p+"/bases/{g}/promote", s.piped(s.promote))
	post(p+"/bases/{g}/rollback/plan", s.piped(s.planRollback))
	post(p+"/bases/{g}/rollback/apply", s.piped(s.applyRollback))
	on("/", nil)
	return mux
}

// methods answers by method; with none there is nothing at this path.
func (s *Server) methods(m map[string]handler) http.Handler {
	var allowed []string
	for method := range m {
		if allowed = append(allowed, method); method == http.MethodGet {
			allowed = append(allowed, http.MethodHead)
		}
	}
	slices.Sort(allowed)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		h, ok := m[method]
		var err error
		switch {
		case len(m) == 0:
			err = refusal(control.NotFound, "", "there is nothing at %s", r.URL.Path)
		case !ok:
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			err = refusal(badMethod, "", "%s takes %s", r.URL.Path, strings.Join(allowed, ", "))
		default:
			err = h(w, r)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	})
}

// piped finds the pipeline that a path names.
func (s *Server) piped(do func(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		name := r.PathValue("p")
		for _, p := range s.o.App.Pipes {
			if p.Config.Name == name {
				return do(w, r, p)
			}
		}
		return refusal(control.NotFound, "pipeline", "this deltad has no pipeline %q", name)
	}
}

type listView struct {
	Now       time.Time      `json:"now"`
	Build     string         `json:"build"`
	Instance  string         `json:"instance"`
	Pipelines []pipelineView `json:"pipelines"`
}

func (s *Server) list(r *http.Request) (listView, error) {
	now := time.Now().UTC()
	l := listView{Now: now, Build: s.o.Build, Instance: s.o.App.Instance, Pipelines: []pipelineView{}}
	for _, p := range s.o.App.Pipes {
		v, err := s.view(r.Context(), p, now)
		if err != nil {
			return l, err
		}
		l.Pipelines = append(l.Pipelines, v)
	}
	return l, nil
}

func (s *Server) pipelines(w http.ResponseWriter, r *http.Request) error {
	l, err := s.list(r)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, l)
}

func (s *Server) pipeline(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	v, err := s.view(r.Context(), p, time.Now())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, v)
}

func (s *Server) runs(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	limit, before, err := newestFirst(r)
	if err != nil {
		return err
	}
	runs, err := s.o.App.State.Runs(r.Context(), p.Config.Name, limit, before)
	if err != nil {
		return err
	}
	out := struct {
		Runs []runView `json:"runs"`
		// Before asks for the runs before these; null at the end.
		Before *string `json:"next_before"`
	}{Runs: []runView{}}
	for _, run := range runs {
		out.Runs = append(out.Runs, runOf(run))
	}
	if len(runs) == limit {
		out.Before = &runs[len(runs)-1].ID
	}
	return answer(w, http.StatusOK, out)
}

func (s *Server) partitions(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	q, err := parameters(r, "from", "to", "limit", "state")
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	from, err := q.instant("from")
	if err != nil {
		return err
	}
	to, err := q.instant("to")
	if err != nil {
		return err
	}
	state := q.Get("state")
	if state != "" {
		if _, err := partition.ParseState(state); err != nil {
			return refusal(badParameter, "state", "%v", err)
		}
	}
	out := struct {
		Partitions []entryView `json:"partitions"`
		// From asks for the partitions after these; null at the end.
		From *time.Time `json:"next_from"`
	}{Partitions: []entryView{}}
	for {
		page, err := s.o.App.State.LedgerRange(r.Context(), p.Config.Name, "", from, to, maxLimit)
		if err != nil {
			return err
		}
		for _, e := range page {
			if state != "" && e.State != state {
				continue
			}
			if len(out.Partitions) == limit {
				out.From = at(from)
				return answer(w, http.StatusOK, out)
			}
			out.Partitions = append(out.Partitions, entryOf(e))
			from = e.Partition
		}
		if len(page) < maxLimit {
			return answer(w, http.StatusOK, out)
		}
		from = page[len(page)-1].Partition
	}
}

func (s *Server) watermark(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	row, err := control.Of(s.o.App, p).Row(r.Context())
	if err != nil {
		return err
	}
	tag := etag(row.Version)
	w.Header().Set("ETag", tag)
	if known(r, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return answer(w, http.StatusOK, watermarkOf(row))
}

func (s *Server) audit(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	q, err := parameters(r, "limit", "before")
	if err != nil {
		return err
	}
	limit, err := q.limit()
	if err != nil {
		return err
	}
	before := int64(0)
	if b := q.Get("before"); b != "" {
		if before, err = strconv.ParseInt(b, 10, 64); err != nil || before < 1 {
			return refusal(badParameter, "before", "must be the seq of an entry, got %q", b)
		}
	}
	trail, err := s.o.App.State.AuditTrail(r.Context(), p.Config.Name, limit, before)
	if err != nil {
		return err
	}
	out := struct {
		Entries []auditView `json:"audit"`
		// Before asks for the entries before these; null at the end.
		Before *int64 `json:"next_before"`
	}{Entries: []auditView{}}
	for _, e := range trail {
		out.Entries = append(out.Entries, auditOf(e))
	}
	if len(trail) == limit {
		out.Before = &trail[len(trail)-1].Seq
	}
	return answer(w, http.StatusOK, out)
}

func (s *Server) intent(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	in, err := s.o.App.State.IntentByID(r.Context(), r.PathValue("id"))
	if errors.Is(err, watermark.ErrNotFound) || err == nil && in.Pipeline != p.Config.Name {
		return refusal(control.NotFound, "id", "pipeline %s has no reset or rollback %q", p.Config.Name, r.PathValue("id"))
	}
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, intentOf(in))
}

// known says that the caller has what a tag stands for: If-None-Match may name
// several, weak ones too, or *.
func known(r *http.Request, tag string) bool {
	for _, line := range r.Header.Values("If-None-Match") {
		for have := range strings.SplitSeq(line, ",") {
			if have = strings.TrimPrefix(strings.TrimSpace(have), "W/"); have == tag || have == "*" {
				return true
			}
		}
	}
	return false
}

// etag is a version of a pipeline's row as an ETag.
func etag(version int64) string { return fmt.Sprintf(`"%d"`, version) }

// How many items a list may have.
const (
	defaultLimit = 100
	maxLimit     = 1000
)

type query struct{ url.Values }

// parameters are those of a request; one that is not known is an error.
func parameters(r *http.Request, known ...string) (query, error) {
	q := r.URL.Query()
next:
	for name, values := range q {
		for _, k := range known {
			if name == k && len(values) == 1 {
				continue next
			}
		}
		return query{}, refusal(badParameter, name, "the parameters here are %s, each at most once", strings.Join(known, ", "))
	}
	return query{q}, nil
}

func (q query) limit() (int, error) {
	v := q.Get("limit")
	if v == "" {
		return defaultLimit, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > maxLimit {
		return 0, refusal(badParameter, "limit", "must be between 1 and %d, got %q", maxLimit, v)
	}
	return n, nil
}

// id is a parameter that names a run or a rebuild; empty where it is absent.
func (q query) id(name string) (string, error) {
	v := q.Get(name)
	if v == "" {
		return "", nil
	}
	if _, err := ulid.ParseStrict(v); err != nil {
		return "", refusal(badParameter, name, "must be an id, a ULID, got %q", v)
	}
	return v, nil
}

// newestFirst are the parameters of a list of what has ids: how many, and of
// those before which one.
func newestFirst(r *http.Request) (limit int, before string, err error) {
	q, err := parameters(r, "limit", "before")
	if err == nil {
		limit, err = q.limit()
	}
	if err == nil {
		before, err = q.id("before")
	}
	return limit, before, err
}

func (q query) instant(name string) (time.Time, error) {
	v := q.Get(name)
	if v == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		return time.Time{}, refusal(badParameter, name, "must be an RFC 3339 time such as 2026-11-30T10:00:00Z, got %q", v)
	}
	return t.UTC(), nil
}
