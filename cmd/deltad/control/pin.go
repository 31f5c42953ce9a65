package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/watermark"
)

// Pin keeps a generation, or the pane of a run, from being collected until
// somebody unpins it.
func (p Pipe) Pin(ctx context.Context, id string, c Change) (watermark.Pin, error) {
	ch, err := p.change(c)
	if err != nil {
		return watermark.Pin{}, err
	}
	if strings.HasPrefix(ch.Actor, watermark.RebuildOwner("")) {
		return watermark.Pin{}, refuse(InvalidField, "actor", "%q is the name of a rebuild", ch.Actor)
	}
	if err := Reasoned(ch.Reason); err != nil {
		return watermark.Pin{}, err
	}
	kind, ref, err := p.pinnable(ctx, id)
	if err != nil {
		return watermark.Pin{}, err
	}
	pin := watermark.Pin{Pipeline: p.name, Kind: kind, ID: id, Owner: ch.Actor, Reason: ch.Reason}
	pins, err := p.app.State.Pins(ctx, p.name)
	if err != nil {
		return pin, fmt.Errorf("look for pins: %w", err)
	}
	before := slices.ContainsFunc(pins, func(o watermark.Pin) bool { return o.Kind == kind && o.ID == id && o.Owner == ch.Actor })
	if err := p.app.State.Pin(ctx, pin); err != nil {
		return pin, fmt.Errorf("pin %s %s: %w", kind, id, err)
	}
	// Looked at under the pin: what is there now stays.
	m, err := p.pipe.Sink.ReadManifest(ctx, ref)
	if err == nil {
		err = p.pipe.Sink.Present(ctx, m)
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, sink.ErrCondemned) {
		err = refuse(NotThere, "id", "%s %s was collected already", kind, id)
	}
	if err != nil && before {
		return pin, err // an outage now must not undo what was pinned before
	}
	if err != nil {
		return pin, errors.Join(err, p.app.State.Unpin(ctx, p.name, kind, id, ch.Actor))
	}
	return pin, nil
}

// pinnable finds what an id names.
func (p Pipe) pinnable(ctx context.Context, id string) (kind string, ref sink.Ref, _ error) {
	rb, err := p.app.State.RebuildByID(ctx, id)
	switch {
	case err == nil && rb.Pipeline == p.name && rb.Manifest.Key != "":
		return watermark.PinBase, sink.Ref{Manifest: rb.Manifest.Key, SHA256: rb.Manifest.SHA256}, nil
	case err != nil && !errors.Is(err, watermark.ErrNotFound):
		return "", ref, fmt.Errorf("look for base %s: %w", id, err)
	}
	run, err := p.app.State.RunByID(ctx, id)
	switch {
	case err == nil && run.Pipeline == p.name && run.Status == watermark.RunPublished:
		return watermark.PinPane, sink.Ref{Manifest: run.Manifest.Key, SHA256: run.Manifest.SHA256}, nil
	case err != nil && !errors.Is(err, watermark.ErrNotFound):
		return "", ref, fmt.Errorf("look for run %s: %w", id, err)
	}
	return "", ref, refuse(NotFound, "id", "pipeline %s has neither a generation nor a published run %q", p.name, clip(id))
}

// Unpin lets go of what people pinned under an id, whoever they were, and
// returns it.
func (p Pipe) Unpin(ctx context.Context, id string, c Change) ([]watermark.Pin, error) {
	ch, err := p.change(c)
	if err != nil {
		return nil, err
	}
	pins, err := p.app.State.Pins(ctx, p.name)
	if err != nil {
		return nil, fmt.Errorf("look for pins: %w", err)
	}
	var gone []watermark.Pin
	for _, pin := range pins {
		if pin.ID != id || strings.HasPrefix(pin.Owner, watermark.RebuildOwner("")) {
			continue
		}
		if err := p.app.State.Unpin(ctx, p.name, pin.Kind, pin.ID, pin.Owner); err != nil {
			return gone, fmt.Errorf("unpin %s %s: %w", pin.Kind, pin.ID, err)
		}
		gone = append(gone, pin)
		if pin.Owner == ch.Actor {
			continue
		}
		// The store audits whose pin it was, this who took it away.
		entry := watermark.AuditEntry{ID: p.app.NewID(), Actor: ch.Actor, Action: "unpin", Pipeline: p.name, Reason: ch.Reason}
		if entry.Details, err = json.Marshal(map[string]string{"kind": pin.Kind, "id": pin.ID, "owner": pin.Owner}); err != nil {
			return gone, fmt.Errorf("encode audit details: %w", err)
		}
		if err := p.app.State.AppendAudit(ctx, entry); err != nil {
			return gone, fmt.Errorf("audit that %s was unpinned: %w", pin.ID, err)
		}
	}
	if len(gone) == 0 {
		return nil, refuse(NotFound, "id", "nobody has pinned %q of pipeline %s", clip(id), p.name)
	}
	return gone, nil
}
