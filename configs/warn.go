package configs

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Warnings returns what is allowed and most likely not meant, in the order of
// Validate. It is meaningful for a Config that Validate accepts.
func (c *Config) Warnings() []Problem {
	var ps Problems
	if u, err := url.Parse(c.State.URL); err == nil && u.User != nil {
		if _, has := u.User.Password(); has {
			ps.add("state.url", "should not hold the password (use state.password_file)", u.Redacted())
		}
	}
	if strings.HasPrefix(c.State.URL, "sqlite:") && c.State.PasswordFile != "" {
		ps.add("state.password_file", "has no effect on SQLite", c.State.PasswordFile)
	}
	for _, p := range c.Pipelines {
		p.warn(&ps)
	}
	c.warnPlaces(&ps)
	return ps
}

func (p *Pipeline) warn(ps *Problems) {
	path := join("pipelines", p.Name)
	warnS3(ps, path+".source.s3", p.Source.URL, p.Source.S3 != S3{Checksum: ChecksumWhenRequired})
	layout, err := p.Layout()
	if err == nil {
		for _, text := range layout.Warnings() {
			at, got := path+".source.layout", p.Source.Layout
			if strings.HasPrefix(text, "time zone ") {
				at, got = path+".source.time_zone", p.Source.TimeZone
			}
			ps.add(at, text, got)
		}
		if four := 4 * layout.Granularity(); p.Window.Size > 0 && p.Window.Size < four {
			ps.add(path+".window.size", "should be at least four granules ("+FormatDuration(four)+"), or one late partition is out of reach", FormatDuration(p.Window.Size))
		}
	}
	if p.Full == nil {
		for _, f := range p.Index.Fields {
			if !f.OverSet && additive(f) {
				ps.add(join(path+".index.fields", f.Name)+".over",
					"should be set: without a full section "+f.Fn+" over all is over the coverage, whose length varies", "nothing")
			}
		}
	}
	if p.Errors.Object == ErrorsFail && p.Errors.SkipAfter == 0 {
		ps.add(path+".errors.skip_after", "should not be 0: one unreadable object then holds the pipeline until it is mended", "0")
	}
	p.warnFull(ps, path)
	o := p.Output.S3
	warnS3(ps, path+".output.s3", p.Output.URL, o.S3 != S3{Checksum: ChecksumWhenRequired} || o.SSEKMSKeyID != "" || o.ACL != "" || len(o.Tags) > 0)
}

// warnFull looks for what a base makes unwise.
func (p *Pipeline) warnFull(ps *Problems, path string) {
	f := p.Full
	if f == nil || p.Window.Size <= 0 {
		return
	}
	if most, usual := p.WindowMax(), p.OrdinaryCoverage(); most < usual {
		ps.add(path+".window.max", fmt.Sprintf("should be at least what coverage reaches while nothing is amiss (%s, if a rebuild takes as long as the window), for beyond it window.on_gap acts",
			FormatDuration(usual)), FormatDuration(most))
	}
	if interval := p.ScheduleInterval(); f.SupportPreviousFor > interval {
		ps.add(path+".full.support_previous_for", "should be at most the schedule interval ("+FormatDuration(interval)+"), only one previous base is supported",
			FormatDuration(f.SupportPreviousFor))
	}
	if listed := p.listed(); f.Tombstones > 0 && f.Tombstones < listed {
		ps.add(path+".full.tombstones", "should be at least what a run lists ("+FormatDuration(listed)+"), or a late object can bring a deleted key back",
			FormatDuration(f.Tombstones))
	}
}

func warnS3(ps *Problems, path, url string, set bool) {
	if set && strings.HasPrefix(url, SchemeFile+":") {
		ps.add(path, "has no effect on files", url)
	}
}

// additive reports whether a field counts every record once, so that its value
// depends on how far back it reaches.
func additive(f Field) bool {
	if f.Fn == FnCollect {
		return slices.ContainsFunc(f.Fields, additive)
	}
	return slices.Contains([]string{FnCount, "sum", "mean", "variance", "stddev", "covariance", "counts", "mode", "histogram", "quantile", "median", "median_exact"}, f.Fn)
}

// warnPlaces looks for pipelines that read what another one publishes.
func (c *Config) warnPlaces(ps *Problems) {
	for _, p := range c.Pipelines {
		out, err := ParseLocation(p.Output.URL)
		if err != nil {
			continue
		}
		o := placeIn(p.Output.S3.S3, out)
		for _, other := range c.Pipelines {
			if other == p {
				continue
			}
			for _, source := range other.sources() {
				if source.contains(o) || o.contains(source) {
					ps.add(join("pipelines", p.Name)+".output.url",
						fmt.Sprintf("should be apart from the source of %s (%s): collection deletes panes while they are read", other.Name, source.Location), p.Output.URL)
				}
			}
		}
	}
}
