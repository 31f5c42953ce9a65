package configs

import "time"

// Default returns the configuration of an empty file: every setting that has
// a default has it, and there is no pipeline.
func Default() *Config {
	return &Config{
		Cache:   Cache{Size: 20 << 30},
		Admin:   Admin{Listen: "127.0.0.1:8480"},
		Restart: Restart{Every: 24 * time.Hour, Jitter: 15 * time.Minute, Mode: RestartAuto},
	}
}

// DefaultPipeline returns a pipeline of that name in which every setting that
// has a default has it. Trigger.Every has none until it is known that no cron
// expression is set; see (*Pipeline).fill.
func DefaultPipeline(name string) *Pipeline {
	return &Pipeline{
		Name:    name,
		Source:  Source{TimeZone: "UTC", S3: S3{Checksum: ChecksumWhenRequired}},
		Trigger: Trigger{TimeZone: "UTC", Timeout: 10 * time.Minute},
		Index:   Index{Windowing: WindowingGlobal},
		Errors:  Errors{Object: ErrorsFail, SkipAfter: 10, Row: ErrorsFail, RejectLimit: 0.01},
		Output: Output{
			S3:     OutputS3{S3: S3{Checksum: ChecksumWhenRequired}},
			Retain: Retain{For: 2 * time.Hour, Panes: 20, Bases: 3},
			Layers: Layers{Above: 64 << 20, Max: maxLayers},
			Mode:   ModeAccumulating,
		},
	}
}

// DefaultFull returns the settings of an empty full section.
func DefaultFull() *Full {
	return &Full{TimeZone: "UTC", Promote: PromoteAuto, SupportPreviousFor: 6 * time.Hour, OnStale: StaleRebuild}
}

// fill sets the defaults that depend on other settings.
func (p *Pipeline) fill() {
	if p.Trigger.Every == 0 && p.Trigger.Cron == "" {
		p.Trigger.Every = 30 * time.Second
	}
}
