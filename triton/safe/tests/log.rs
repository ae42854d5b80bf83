//! `tracing` events as lines of the server's log. One test: the log is the process's.

#![allow(clippy::unwrap_used)] // helpers of tests

use std::sync::Arc;

use tracing::{Span, debug, error, info, info_span, trace, warn};
use triton_backend::{
    Backend, BackendContext, Error, InstanceContext, ModelContext, Requests, entry_points,
};
use triton_backend_sys as sys;
use triton_mock_host::{
    BackendSetup, Host, InstanceSetup, LogLine, ModelSetup, RequestSetup, log_lines, set_verbose,
};

struct Talkative;

struct TalkativeInstance(Span);

impl Backend for Talkative {
    type Model = ();
    type Instance = TalkativeInstance;

    fn initialize(_: &BackendContext) -> Result<Self, Error> {
        info!("initialized");
        Ok(Talkative)
    }

    fn load(&self, _: &ModelContext) -> Result<(), Error> {
        warn!(pages = 7, what = "text", "100 % {}", "loaded");
        // Spans of other crates say nothing of the place.
        info_span!("compile", entry = "decode").in_scope(|| info!("compiled"));
        Ok(())
    }

    fn create_instance(_: &Arc<()>, _: &InstanceContext) -> Result<TalkativeInstance, Error> {
        debug!("not wanted yet");
        info!("zero \0 byte");
        Ok(TalkativeInstance(Span::current()))
    }

    fn execute(instance: &TalkativeInstance, requests: Requests<'_>) {
        requests.for_each(|request| drop(request.respond(|_| Ok(()))));
        debug!("fine");
        trace!("finer");
        let span = instance.0.clone();
        let thread = std::thread::spawn(move || {
            error!("outside");
            let _inside = span.entered();
            // The instance is nearer than what encloses a model.
            info_span!("model", model = "other").in_scope(|| info!("inside"));
            info_span!("inner", instance = "inner_0", model = "m").in_scope(|| info!("deeper"));
        });
        thread.join().unwrap();
    }
}

#[test]
fn lines_name_the_innermost_instance_or_else_the_model() {
    let setup = BackendSetup { name: "tlaloc".to_owned(), ..BackendSetup::default() };
    let host = Host::start(entry_points::<Talkative>(), setup).unwrap();
    let model = ModelSetup { name: "llm".to_owned(), ..ModelSetup::default() };
    let model = host.load(model).unwrap();
    let instance = InstanceSetup { name: "llm_0".to_owned(), ..InstanceSetup::default() };
    let instance = model.instance(instance).unwrap();
    set_verbose(true);
    instance.execute(vec![RequestSetup::default()]).unwrap()[0].wait();
    set_verbose(false);
    instance.execute(vec![]).unwrap();

    let lines = log_lines();
    let said: Vec<_> = lines.iter().map(|line| (line.level, line.message.as_str())).collect();
    const INFO: u32 = sys::TRITONSERVER_LOG_INFO;
    const WARN: u32 = sys::TRITONSERVER_LOG_WARN;
    const ERROR: u32 = sys::TRITONSERVER_LOG_ERROR;
    const VERBOSE: u32 = sys::TRITONSERVER_LOG_VERBOSE;
    let threads = [
        (ERROR, "tlaloc backend: outside"),
        (INFO, "tlaloc backend: instance 'llm_0': inside"),
        (INFO, "tlaloc backend: instance 'inner_0': deeper"),
    ];
    let mut expected = vec![
        (INFO, "tlaloc backend: initialized"),
        (WARN, "tlaloc backend: model 'llm': 100 % loaded pages=7 what=text"),
        (INFO, "tlaloc backend: model 'llm': compiled"),
        (INFO, "tlaloc backend: instance 'llm_0': zero   byte"),
        (VERBOSE, "tlaloc backend: instance 'llm_0': fine"),
        (VERBOSE, "tlaloc backend: instance 'llm_0': finer"),
    ];
    expected.extend(threads);
    expected.extend(threads);
    assert_eq!(said, expected);

    let LogLine { file, line, .. } = &lines[0];
    let source = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/log.rs"));
    let place = source.unwrap().lines().position(|line| line.contains("\"initialized\"")).unwrap();
    assert!(file.ends_with("tests/log.rs"), "{file}");
    assert_eq!(*line as usize, place + 1);
}
