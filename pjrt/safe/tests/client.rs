//! Clients: sharing, lifetime and log lines.

#![allow(clippy::unwrap_used)] // helpers of tests

mod support;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use tlaloc_pjrt::{Client, ClientOptions, Plugin};
use tracing_subscriber::layer::{Context, SubscriberExt as _};

/// Collects the messages of events.
#[derive(Clone, Default)]
struct Messages(Arc<Mutex<Vec<String>>>);

impl<S: tracing_subscriber::registry::LookupSpan<'static> + tracing::Subscriber>
    tracing_subscriber::Layer<S> for Messages
{
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Message(String);
        impl tracing::field::Visit for Message {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                if field.name() == "message" {
                    write!(self.0, "{value:?}").unwrap();
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(message.0);
    }
}

// One test: the clients of a process are counted here, so nothing else may hold one.
#[test]
fn a_client_is_shared_logged_and_destroyed_with_its_last_use() {
    let Some(path) = support::plugin_path() else { return };
    let plugin = Plugin::load(&path).unwrap();
    let (major, minor) = plugin.api_version();
    let shared = || Client::shared(&plugin, 0, &ClientOptions::default()).unwrap();

    let messages = Messages::default();
    let subscriber = tracing_subscriber::registry().with(messages.clone());
    tracing::subscriber::with_default(subscriber, || {
        let first = shared();
        let second = shared();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(first.platform_name(), "cpu");
        assert!(first.supports_views());
        assert!(first.shares_host_memory());
        drop(first);
        // A buffer is a use.
        let buffer = second.zeros(tlaloc_pjrt::ElementType::F32, &[1]).unwrap();
        drop(second);
        assert_eq!(messages.0.lock().unwrap().len(), 1);
        drop(buffer);
    });
    let path = path.display();
    assert_eq!(
        *messages.0.lock().unwrap(),
        [
            format!(
                "PJRT client created on platform 'cpu' for device 0, PJRT C API {major}.{minor}, \
                 device views supported, plugin {path}"
            ),
            format!("destroying the PJRT client for device 0 and {path}"),
        ]
    );

    threads_that_come_and_go_never_meet_a_dying_client(&plugin);
    many_lives_leave_nothing_behind(&plugin);
}

fn threads_that_come_and_go_never_meet_a_dying_client(plugin: &Arc<Plugin>) {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let client = Client::shared(plugin, 0, &ClientOptions::default()).unwrap();
                    client.zeros(tlaloc_pjrt::ElementType::I8, &[3]).unwrap();
                }
            });
        }
    });
}

fn many_lives_leave_nothing_behind(plugin: &Arc<Plugin>) {
    let live = || {
        let client = Client::shared(plugin, 0, &ClientOptions::default()).unwrap();
        let executable = support::square_plus(&client, 1024);
        let input = client.zeros(tlaloc_pjrt::ElementType::F32, &[1024]).unwrap();
        let mut pending = executable.execute([tlaloc_pjrt::Argument::Keep(&input)]).unwrap();
        pending.wait().unwrap();
    };
    // Allocators and thread caches grow at first.
    (0..10).for_each(|_| live());
    let (threads, resident) = support::process_size();
    (0..20).for_each(|_| live());
    let (threads_after, resident_after) = support::process_size();
    assert_eq!(threads_after, threads);
    let grown = resident_after.saturating_sub(resident);
    assert!(grown < 16 << 20, "{grown} bytes more resident memory after 20 clients");
}
