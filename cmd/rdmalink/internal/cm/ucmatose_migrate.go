package cm

import "errors"

// move takes all IDs to another event channel, where their ends are reported.
func (m *matose) move() error {
	if !m.migrate {
		return nil
	}
	to, err := openChannel()
	if err != nil {
		return err
	}
	from := m.channel
	from.mu.Lock()
	to.request = from.request
	from.mu.Unlock()
	for _, id := range m.ids {
		err = errors.Join(err, id.Migrate(to.EventChannel))
	}
	for _, n := range m.conns {
		to.add(n)
		err = errors.Join(err, n.id.Migrate(to.EventChannel))
		from.remove(n)
		n.channel = to
	}
	m.channel = to
	return errors.Join(err, from.close(), m.say("moved to another event channel"))
}
