package configs

import "time"

// Granule is the length of a partition: source.granularity, else that of the
// layout's finest placeholder. It is 0 for a layout that has none.
func (p *Pipeline) Granule() time.Duration { return p.Source.Granularity }

// FutureSkew is how far ahead of the clock a partition may start.
func (p *Pipeline) FutureSkew() time.Duration {
	if p.Source.MaxFutureSkew != nil {
		return *p.Source.MaxFutureSkew
	}
	return min(p.Granule(), time.Minute)
}

// LongestOver is D of the coverage rule: the longest over of any field, 0 if
// none has a duration.
func (p *Pipeline) LongestOver() time.Duration {
	var d time.Duration
	for _, f := range p.Index.Fields {
		d = max(d, f.Over)
	}
	return d
}
