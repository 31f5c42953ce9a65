package layers

import "github.com/deltad/deltad/microbatch/window"

// Patch is a Differ for those who know what has become of the rows of the pane before, and need not compare them: it makes of the Log of that
// pane the Log of the next, counts and finds what a layer has to say, at the cost of what changed. Without a Log before it counts alone and there
// is no Log after. It is for one goroutine.
type Patch struct {
	o   Options
	log *logWriter // nil for none
	out *writer
}

// NewPatch returns a Patch without changes. Abort it unless it was finished.
func NewPatch(o Options) (*Patch, error) {
	out, err := newWriter(o)
	if err != nil {
		return nil, err
	}
	p := &Patch{o: o, out: out}
	if o.Before != nil {
		p.log = newLogWriter(o.Dir, o.Memory, o.Before.whole)
	}
	return p, nil
}

// Abort gives everything back, if the Patch was not finished.
func (p *Patch) Abort() {
	if p.log != nil {
		p.log.spool.Abort()
	}
}

// Counts are those of the changes added so far; once it is finished, of the pane.
func (p *Patch) Counts() Counts { return p.out.counts }

// Add takes the next changes, in key order.
func (p *Patch) Add(c window.Changes) error {
	p.out.over(c.Docs, c.Tombstones)
	for i, key := range c.Keys {
		r := row{key: key, is: c.Is[i], hash: c.Hashes[i]}
		if p.log != nil {
			if !p.log.follows(key) {
				return errOrder
			}
			if err := p.log.add(r); err != nil {
				return err
			}
		}
		if err := p.out.change(c.Was[i], r, int(c.At[i])); err != nil {
			return err
		}
	}
	return p.out.done()
}

// Finish says that all changes were added and returns the Log of the pane, nil for none.
func (p *Patch) Finish() (*Log, error) {
	if err := p.out.end(); err != nil {
		return nil, err
	}
	if p.log == nil {
		return nil, nil
	}
	data, err := p.log.seal()
	if err != nil {
		return nil, err
	}
	return over(p.o.Before, data, p.o.Before.whole), nil
}
