package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/watermark"
)

// How long a caller may wait for what a leader does, by ?wait=.
const (
	defaultWait = 10 * time.Second
	maxWait     = time.Minute
)

// asked is what every moving call may say.
type asked struct {
	Reason string `json:"reason"`
	Actor  string `json:"actor"`
}

// change is who asks and why: by the body, else by the header, else by the
// address. The Idempotency-Key header, a ULID, becomes the id of what is
// asked for, so that a repeated call finds the first one's answer.
func (a asked) change(r *http.Request) control.Change {
	c := control.Change{ID: r.Header.Get("Idempotency-Key"), Actor: strings.TrimSpace(a.Actor), Reason: a.Reason}
	if c.Actor == "" {
		c.Actor = strings.TrimSpace(r.Header.Get("Deltad-Actor"))
	}
	if c.Actor == "" {
		c.Actor = "http " + r.RemoteAddr
		if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
			c.Actor = "http " + host
		}
	}
	return c
}

// decode reads a body; an empty one is an empty object, and a field that is
// not known is an error.
func decode(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = errors.New("there is more than one JSON value")
	}
	var known *control.Refusal // from a field's own decoder
	var large *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &large):
		return refusal(tooLarge, "", "at most %d bytes", large.Limit)
	case errors.As(err, &kind):
		want := "a " + kind.Type.String()
		if kind.Type == reflect.TypeOf(v).Elem() {
			want = "a JSON object" // the body itself
		}
		return refusal(badBody, kind.Field, "must be %s, got a JSON %s", want, kind.Value)
	}
	if name, ok := strings.CutPrefix(err.Error(), `json: unknown field "`); ok {
		return refusal(badBody, strings.TrimSuffix(name, `"`), "this call does not know the field")
	}
	return refusal(badBody, "", "%v", err)
}

func waitOf(r *http.Request) (time.Duration, error) {
	q, err := parameters(r, "wait")
	if err != nil {
		return 0, err
	}
	v := q.Get("wait")
	if v == "" {
		return defaultWait, nil
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 || d > maxWait {
		return 0, refusal(badParameter, "wait", "must be a duration such as 10s, at most %s, got %q", maxWait, v)
	}
	return d, nil
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	var body asked
	if err := decode(r, &body); err != nil {
		return err
	}
	row, err := control.Of(s.o.App, p).Pause(r.Context(), body.change(r))
	return s.toggled(w, row, err)
}

func (s *Server) resume(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	var body asked
	if err := decode(r, &body); err != nil {
		return err
	}
	row, err := control.Of(s.o.App, p).Resume(r.Context(), body.change(r))
	return s.toggled(w, row, err)
}

func (s *Server) toggled(w http.ResponseWriter, row watermark.Pipeline, err error) error {
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(row.Version))
	return answer(w, http.StatusOK, watermarkOf(row))
}

// trigger answers 200 with what the run did, or 202 where it goes on.
func (s *Server) trigger(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	var body struct {
		asked
		AcceptLoss bool `json:"accept_loss"`
	}
	wait, err := waitOf(r)
	if err == nil {
		err = decode(r, &body)
	}
	if err != nil {
		return err
	}
	done, err := control.Of(s.o.App, p).Trigger(r.Context(), control.TriggerRequest{
		Change: body.change(r), AcceptLoss: body.AcceptLoss, Wait: wait,
	})
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !done.Finished() {
		status = http.StatusAccepted
	}
	return answer(w, status, done)
}

// target is a partition start; absent it is the zero time.
type target struct{ time.Time }

// UnmarshalJSON reads RFC 3339, and says so where it is not.
func (t *target) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	if err == nil {
		t.Time, err = time.Parse(time.RFC3339, text)
	}
	if err != nil {
		return refusal(control.InvalidField, "to", "must be an RFC 3339 time such as 2026-11-30T10:00:00Z, got %s", b)
	}
	return nil
}

func (s *Server) plan(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	var body struct {
		To target `json:"to"`
	}
	if err := decode(r, &body); err != nil {
		return err
	}
	plan, err := control.Of(s.o.App, p).PlanReset(r.Context(), time.Now(), body.To.Time)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(plan.Version))
	return answer(w, http.StatusOK, plan)
}

// applied is the answer to an apply: where the pipeline now is, and the
// intent.
type applied struct {
	watermarkView
	Intent intentView `json:"intent"`
	// Pending says why an intent that is still pending is.
	Pending string `json:"pending,omitempty"`
}

// apply answers 200 where the reset has come about, or 202 with the intent's
// location where it is still on its way.
func (s *Server) apply(w http.ResponseWriter, r *http.Request, p *daemon.Pipe) error {
	var body struct {
		asked
		To             target `json:"to"`
		Digest         string `json:"digest"`
		AcceptDataLoss bool   `json:"accept_data_loss"`
	}
	wait, err := waitOf(r)
	if err == nil {
		err = decode(r, &body)
	}
	if err != nil {
		return err
	}
	in, err := control.Of(s.o.App, p).Reset(r.Context(), time.Now(), control.ResetRequest{
		Change: body.change(r), To: body.To.Time, Digest: body.Digest, Version: ifMatch(r), AcceptDataLoss: body.AcceptDataLoss, Wait: wait,
	})
	return s.decided(w, r, p, in, err)
}

// decided answers with what became of an intent.
func (s *Server) decided(w http.ResponseWriter, r *http.Request, p *daemon.Pipe, in watermark.Intent, err error) error {
	out := applied{Intent: intentOf(in)}
	status := http.StatusOK
	switch {
	case in.ID == "" || in.State == watermark.IntentFailed:
		return err
	case in.State == watermark.IntentPending:
		status, out.Pending = http.StatusAccepted, "no leader has carried it out yet"
		if err != nil {
			out.Pending = err.Error()
		}
	}
	row, err := control.Of(s.o.App, p).Row(r.Context())
	if err != nil {
		return err
	}
	out.watermarkView = watermarkOf(row)
	w.Header().Set("ETag", etag(row.Version))
	w.Header().Set("Location", "/api/v1/pipelines/"+p.Config.Name+"/intents/"+in.ID)
	return answer(w, status, out)
}

// ifMatch is the version that the caller has seen; nil where it says none. A
// tag that is none of ours (a weak one, *, several) is one that no version has.
func ifMatch(r *http.Request) *int64 {
	tags := r.Header.Values("If-Match")
	if len(tags) == 0 {
		return nil
	}
	tag, quoted := strings.CutPrefix(strings.TrimSpace(tags[0]), `"`)
	n, err := strconv.ParseInt(strings.TrimSuffix(tag, `"`), 10, 64)
	if len(tags) > 1 || !quoted || err != nil {
		n = -1
	}
	return &n
}
