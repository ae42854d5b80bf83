//! What a backend reads of a request is what the client sent.

#![allow(clippy::unwrap_used)] // helpers of tests

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use triton_backend::{
    Backend, BackendContext, Code, CorrelationId, DataType, Error, Flags, Instance,
    InstanceContext, MemoryUsage, ModelContext, Request, Requests, Times, entry_points,
};
use triton_backend_sys as sys;
use triton_mock_host::{
    BackendSetup, Correlation, Event, GpuAddress, Host, InputSetup, InstanceSetup, LoadedInstance,
    MemoryReport, ModelSetup, Parameter, RequestSetup, Ticket,
};

/// Keeps its requests where the test finds them.
struct Keeper;

static KEPT: Mutex<Vec<(String, Request)>> = Mutex::new(Vec::new());

struct KeeperInstance(Instance);

impl Backend for Keeper {
    type Model = ();
    type Instance = KeeperInstance;

    fn initialize(_: &BackendContext) -> Result<Self, Error> {
        Ok(Keeper)
    }

    fn load(&self, _: &ModelContext) -> Result<(), Error> {
        Ok(())
    }

    fn create_instance(_: &Arc<()>, context: &InstanceContext) -> Result<KeeperInstance, Error> {
        let instance = context.instance();
        instance.report_memory_usage(&[
            MemoryUsage { memory: triton_backend::Memory::Cpu, device: 0, byte_size: 4096 },
            MemoryUsage { memory: triton_backend::Memory::Gpu, device: 3, byte_size: 1 << 33 },
        ]);
        Ok(KeeperInstance(instance))
    }

    fn execute(instance: &KeeperInstance, requests: Requests<'_>) {
        let (mut count, start) = (0, triton_backend::now_ns());
        for request in requests {
            KEPT.lock().unwrap().push((request.id().into_owned(), request));
            count += 1;
        }
        let times = Times { start, compute_start: start, compute_end: start, end: start };
        instance.0.report_batch(count, times);
    }
}

fn instance() -> LoadedInstance {
    let host = Host::start(entry_points::<Keeper>(), BackendSetup::default()).unwrap();
    host.load(ModelSetup::default()).unwrap().instance(InstanceSetup::default()).unwrap()
}

/// Has a request read, and answers it. The id keeps tests that run at once apart.
fn read<T>(
    instance: &LoadedInstance,
    id: &str,
    setup: RequestSetup,
    read: impl FnOnce(&Request, &Ticket) -> T,
) -> T {
    let setup = RequestSetup { id: id.to_owned(), ..setup };
    let tickets = instance.execute(vec![setup]).unwrap();
    let request = {
        let mut kept = KEPT.lock().unwrap();
        let place = kept.iter().position(|(kept, _)| kept == id).unwrap();
        kept.swap_remove(place).1
    };
    let value = read(&request, &tickets[0]);
    drop(request.respond(|_| Ok(())));
    assert!(matches!(&tickets[0].wait()[..], [Event::Answered(answer), Event::Released]
        if answer.error.is_none()));
    value
}

fn with_input(input: InputSetup) -> RequestSetup {
    // Control tensors come along in any order.
    let start = InputSetup {
        name: "START".to_owned(),
        data_type: sys::TRITONSERVER_TYPE_BOOL,
        shape: vec![1, 1],
        pieces: vec![vec![1]],
        memory: sys::TRITONSERVER_MEMORY_CPU,
        gpu: GpuAddress::NOWHERE,
    };
    RequestSetup { inputs: vec![start, input], ..RequestSetup::default() }
}

#[test]
fn an_input_in_unaligned_pieces_is_read_whole() {
    let instance = instance();
    let pieces = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    // What was read before does not matter.
    let mut bytes = vec![1, 2, 3];
    let bytes = std::cell::RefCell::new(&mut bytes);
    let tested = runner.run(&pieces, |pieces| {
        let whole = pieces.concat();
        let input = InputSetup {
            name: "TOKENS".to_owned(),
            data_type: sys::TRITONSERVER_TYPE_INT32,
            shape: vec![1, -7, 9],
            memory: sys::TRITONSERVER_MEMORY_CPU_PINNED,
            gpu: GpuAddress::NOWHERE,
            pieces,
        };
        let count = input.pieces.len();
        let setup = with_input(input);
        let mut bytes = bytes.borrow_mut();
        read(&instance, "pieces", setup, |request, _| {
            let input = request.input("TOKENS").unwrap();
            assert_eq!((input.name(), input.data_type()), ("TOKENS", DataType::Int32));
            assert_eq!(input.shape(), [1, -7, 9]);
            assert_eq!(input.byte_size(), whole.len() as u64);
            assert_eq!(input.buffer_count() as usize, count);
            input.read_into(&mut bytes).unwrap();
        });
        prop_assert_eq!(&**bytes, &whole);
        Ok(())
    });
    tested.unwrap();
}

#[test]
fn an_empty_input_has_no_buffer_and_no_bytes() {
    let setup = with_input(InputSetup::int32("TOKENS", &[]));
    read(&instance(), "empty", setup, |request, _| {
        let input = request.input("TOKENS").unwrap();
        assert_eq!((input.shape(), input.byte_size(), input.buffer_count()), (&[1, 0][..], 0, 0));
        let mut bytes = vec![9];
        input.read_into(&mut bytes).unwrap();
        assert!(bytes.is_empty());
    });
}

#[test]
fn an_input_that_is_absent_or_not_in_host_memory_is_refused_by_name() {
    let setup = with_input(InputSetup {
        memory: sys::TRITONSERVER_MEMORY_GPU,
        ..InputSetup::int32("TOKENS", &[1, 2])
    });
    read(&instance(), "gpu", setup, |request, _| {
        let error = request.input("TOKENS").unwrap().read_into(&mut Vec::new()).unwrap_err();
        assert!(matches!(&error, Error::InputMemory { name, .. } if name == "TOKENS"));
        assert_eq!(error.code(), Code::Unsupported);
        assert!(error.to_string().contains("input 'TOKENS' is in GPU memory of device 0"));

        let error = request.input("tokens").unwrap_err();
        assert!(matches!(&error, Error::NoInput { name } if name == "tokens"));
        assert_eq!(error.code(), Code::InvalidArgument);
        assert_eq!(request.inputs().count(), 2);
    });
}

#[test]
fn numeric_and_text_correlation_ids_are_kept_apart() {
    let instance = instance();
    let id = |correlation| {
        let setup = RequestSetup { correlation, ..RequestSetup::default() };
        read(&instance, "ids", setup, |request, _| request.correlation_id())
    };
    assert_eq!(id(Correlation::None), CorrelationId::None);
    assert_eq!(id(Correlation::Number(0)), CorrelationId::None);
    assert_eq!(id(Correlation::Text(String::new())), CorrelationId::None);
    assert_eq!(id(Correlation::Number(7)), CorrelationId::Number(7));
    assert_eq!(id(Correlation::Number(u64::MAX)), CorrelationId::Number(u64::MAX));
    assert_eq!(id(Correlation::Text("7".to_owned())), CorrelationId::Text("7".to_owned()));
    assert_eq!(id(Correlation::Text("größe".to_owned())), CorrelationId::Text("größe".to_owned()));
}

#[test]
fn flags_outputs_parameters_and_cancellation_are_read() {
    let instance = instance();
    for (start, end) in [(false, false), (true, false), (false, true), (true, true)] {
        let setup = RequestSetup { start, end, ..RequestSetup::default() };
        let flags = read(&instance, "flags", setup, |request, _| request.flags());
        assert_eq!(flags, Flags { start, end });
    }
    let setup = RequestSetup {
        outputs: vec!["LOGITS".to_owned(), "NEXT".to_owned()],
        parameters: vec![
            ("text".to_owned(), Parameter::String("1, 2".to_owned())),
            ("int".to_owned(), Parameter::Int(i64::MIN)),
            ("yes".to_owned(), Parameter::Bool(true)),
            ("no".to_owned(), Parameter::Bool(false)),
            ("double".to_owned(), Parameter::Double(-0.5)),
            ("bytes".to_owned(), Parameter::Bytes),
        ],
        ..RequestSetup::default()
    };
    read(&instance, "parameters", setup, |request, ticket| {
        assert!(request.wants("NEXT") && request.wants("LOGITS"));
        assert!(!request.wants("LOGIT") && !request.wants("LOGITS2"));
        assert_eq!(request.requested_outputs().collect::<Vec<_>>(), ["LOGITS", "NEXT"]);
        let parameters: Vec<_> =
            request.parameters().map(|(name, value)| format!("{name}={value}")).collect();
        let told = "text='1, 2' int=-9223372036854775808 yes=true no=false double=-0.5 \
                    bytes=a value of another type";
        assert_eq!(parameters.join(" "), told);
        assert!(!request.is_cancelled());
        ticket.cancel();
        assert!(request.is_cancelled());
    });
}

#[test]
fn batches_and_memory_are_reported_on_the_steady_clock() {
    let instance = instance();
    // The clock of std's Instant is the same; only differences show.
    let begin = triton_backend::now_ns();
    read(&instance, "batch", RequestSetup::default(), |_, _| ());
    let end = triton_backend::now_ns();
    let batches = instance.reports().batches();
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].requests, 1);
    assert!(batches[0].times.iter().all(|time| (begin..=end).contains(time)));
    let boot = std::fs::read_to_string("/proc/uptime").unwrap();
    let uptime: f64 = boot.split_whitespace().next().unwrap().parse().unwrap();
    // Time asleep is in the one and not in the other; a wrong unit or the date is far off.
    assert!((end as f64) < (uptime + 60.0) * 1e9 && end > 1_000_000_000);
    assert_eq!(
        instance.reports().memory_usage(),
        [
            MemoryReport { memory: sys::TRITONSERVER_MEMORY_CPU, device: 0, byte_size: 4096 },
            MemoryReport { memory: sys::TRITONSERVER_MEMORY_GPU, device: 3, byte_size: 1 << 33 },
        ]
    );
}
