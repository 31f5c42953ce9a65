package app

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/deltad/deltad/cmd/deltad/daemon"
	"github.com/deltad/deltad/watermark"
)

// bar shows on a terminal how far a rebuild is. Anywhere else it shows nothing:
// the log has what matters.
type bar struct {
	mu    sync.Mutex
	w     io.Writer // nil where there is no terminal
	began time.Time
	shown int // characters of the line that is on the terminal
}

func newBar(w io.Writer) *bar {
	b := &bar{began: time.Now()}
	if terminal(w) {
		b.w = w
	}
	return b
}

// terminal says whether a writer is one, as far as that can be told without
// asking the terminal itself.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}

// cells is the width of the bar itself.
const cells = 30

func (b *bar) show(p watermark.RebuildProgress) { b.draw(lineOfProgress(p, time.Since(b.began))) }

func (b *bar) draw(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w == nil {
		return
	}
	n := len([]rune(line))
	fmt.Fprint(b.w, "\r"+line+strings.Repeat(" ", max(0, b.shown-n)))
	b.shown = n
}

// end takes the bar off the terminal.
func (b *bar) end() {
	b.draw("")
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w != nil {
		fmt.Fprint(b.w, "\r")
		b.w = nil
	}
}

// lineOfProgress is how far a rebuild is, as one line.
func lineOfProgress(p watermark.RebuildProgress, elapsed time.Duration) string {
	ratio := daemon.RebuildRatio(p)
	full := min(cells, int(ratio*cells))
	phase := p.Phase
	if phase == "" {
		phase = "waiting"
	}
	line := fmt.Sprintf("[%s%s] %3.0f %%  %s", strings.Repeat("=", full), strings.Repeat(" ", cells-full), 100*ratio, phase)
	if p.Total > 0 {
		line += fmt.Sprintf(" %d/%d", p.Done, p.Total)
	}
	return line + fmt.Sprintf("  %d rows  %s", p.Rows, elapsed.Round(time.Second))
}
