package admin

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/deltad/deltad/cmd/deltad/control"
	"github.com/deltad/deltad/watermark"
)

//go:embed assets
var assets embed.FS

// pageView is what the page shows.
type pageView struct {
	listView
	Error string
}

// page renders the status page with everything on it, so that it says the
// same without scripts; the script then keeps it fresh.
func (s *Server) page(w http.ResponseWriter, r *http.Request) error {
	l, err := s.list(r)
	v := pageView{listView: l}
	if err != nil {
		// The page itself must not need what it is there to report on.
		s.o.Log.Error("status page", zap.Error(err))
		v.Error = err.Error()
	}
	t, err := template.New("status.html").Funcs(template.FuncMap{
		"time": showTime, "age": showAge, "num": showNumber,
		"baseCut": baseCut, "nextRebuild": nextRebuild, "rebuildText": rebuildText, "gateText": gateText,
		"tone": tone, "outcome": outcome, "why": why, "clock": func(t time.Time) string { return showTime(&t) },
	}).ParseFS(assets, "assets/status.html")
	if err != nil {
		return fmt.Errorf("read the status page: %w", err)
	}
	var buf bytes.Buffer
	if err := t.Execute(&buf, v); err != nil {
		return fmt.Errorf("render the status page: %w", err)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(buf.Bytes()) // a browser that has gone needs no answer
	return nil
}

// asset serves the page's own files.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("file")
	body, err := assets.ReadFile("assets/" + path.Base(name))
	if err != nil || path.Ext(name) == ".html" {
		return refusal(control.NotFound, "", "there is nothing at %s", r.URL.Path)
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	_, _ = w.Write(body) // a browser that has gone needs no answer
	return nil
}

// tone is the colour of an outcome.
func tone(p pipelineView) string {
	switch {
	case p.Starting != nil && p.Starting.Refused:
		return "bad"
	case p.Paused, p.Starting != nil:
		return "warn"
	case p.LastStep == nil:
		return "idle"
	}
	switch p.LastStep.Outcome { //nolint:exhaustive // the others are in order
	case "failed":
		return "bad"
	case "held":
		return "warn"
	case "standby":
		return "idle"
	}
	return "good"
}

// outcome is what became of the last step, or that there is none yet.
func outcome(p pipelineView) string {
	switch {
	case p.Starting != nil && p.Starting.Refused:
		return "refused"
	case p.Starting != nil:
		return "waiting for the " + p.Starting.WaitingFor
	case p.LastStep == nil:
		return "no step yet"
	}
	return string(p.LastStep.Outcome)
}

// why says it to people; a pause has a banner of its own.
func why(p pipelineView) string {
	switch {
	case p.Starting != nil:
		return p.Starting.Error
	case p.LastStep == nil || p.Paused:
		return ""
	}
	return p.LastStep.Why
}

// baseCut is how old the live base is.
func baseCut(f *fullView) string {
	if f.Cut == nil {
		return "none yet"
	}
	s := showTime(f.Cut) + ", " + showAge(f.Age) + " old"
	if f.Stale > 0 {
		s += ", " + showNumber(f.Stale) + " objects stale"
	}
	return s
}

func nextRebuild(f *fullView) string {
	if f.Next == nil {
		return "by hand"
	}
	return showTime(f.Next)
}

// rebuildText is what an open rebuild does.
func rebuildText(r *rebuildView) string {
	if r.State == watermark.RebuildQueued {
		return "rebuild " + r.ID + " is queued"
	}
	s := "rebuild " + r.ID + ": " + r.Phase
	if r.Total > 0 {
		s += " " + showNumber(r.Done) + " of " + showNumber(r.Total)
	}
	s += ", " + showNumber(r.Rows) + " rows"
	if r.CancelRequested {
		s += ", called off"
	}
	return s
}

// gateText says what waits for a person.
func gateText(f *fullView) string {
	switch {
	case f.Held != nil:
		var failed []string
		for _, c := range f.Held.Checks {
			if !c.Passed {
				failed = append(failed, c.Name+": "+c.Detail)
			}
		}
		return "Held by the gate: " + f.Held.ID + ". " + strings.Join(failed, "; ")
	case f.Candidate != nil && !f.Candidate.Approved:
		return "Candidate " + f.Candidate.ID + " waits to be promoted."
	case len(f.Barred) == 0:
		return ""
	}
	var barred []string
	for _, b := range f.Barred {
		barred = append(barred, b.Generation+" by "+b.By+": "+b.Reason)
	}
	return "Barred from promotion: " + strings.Join(barred, "; ")
}

func showTime(t *time.Time) string {
	if t == nil {
		return "none yet"
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC"
}

// showAge is a number of seconds for people, in its two largest units.
func showAge(seconds *float64) string {
	if seconds == nil {
		return "no data yet"
	}
	sign, n := "", int64(*seconds)
	if n < 0 {
		sign, n = "−", -n
	}
	switch {
	case n < 60:
		return fmt.Sprintf("%s%d s", sign, n)
	case n < 3600:
		return fmt.Sprintf("%s%d min %d s", sign, n/60, n%60)
	case n < 86400:
		return fmt.Sprintf("%s%d h %d min", sign, n/3600, n/60%60)
	}
	return fmt.Sprintf("%s%d d %d h", sign, n/86400, n/3600%24)
}

// showNumber groups digits.
func showNumber(v any) string {
	s := fmt.Sprint(v)
	sign := ""
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		sign, s = "-", rest
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return sign + s
}
