package configs

import (
	"testing"

	"github.com/deltad/deltad/sink"
)

// TestLayersAreThoseOfTheFormat: what may be set is what a reader takes.
func TestLayersAreThoseOfTheFormat(t *testing.T) {
	if maxLayers != sink.MaxLayer || DefaultPipeline("p").Output.Layers.Max != sink.MaxLayer {
		t.Errorf("up to %d layers may be set, the format has %d", maxLayers, sink.MaxLayer)
	}
}
