//! `libtriton_echo.so`: a whole backend. It answers each output with the bytes of the input of the
//! same place in the model's configuration, and fails where a request's parameter `fail` says so.
//!
//! ```text
//! cargo build -p triton-backend --example triton_echo
//! mkdir -p backends/echo && cp target/debug/examples/libtriton_echo.so backends/echo/
//! tritonserver --backend-directory backends --model-repository models
//! ```

use std::sync::Arc;

use serde_json::Value;
use tracing::info;
use triton_backend::{
    Backend, BackendContext, DataType, Error, Instance, InstanceContext, InstanceKind,
    ModelContext, Request, Requests, Response, Times, export_backend, now_ns,
};

struct Echo;

/// Names of an input and the output that repeats it.
struct Pair {
    input: String,
    output: String,
}

struct EchoInstance {
    pairs: Arc<Vec<Pair>>,
    instance: Instance,
}

impl Backend for Echo {
    type Model = Vec<Pair>;
    type Instance = EchoInstance;

    const PREFERRED_KINDS: &'static [InstanceKind] = &[InstanceKind::Model];

    fn initialize(context: &BackendContext) -> Result<Self, Error> {
        info!("in {}, configured with {}", context.directory().display(), context.config());
        Ok(Echo)
    }

    fn load(&self, context: &ModelContext) -> Result<Vec<Pair>, Error> {
        let names = |tensors: &str| -> Vec<String> {
            let tensors = context.config().get(tensors).and_then(Value::as_array);
            let names = tensors.into_iter().flatten().filter_map(|tensor| tensor.get("name"));
            names.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let (inputs, outputs) = (names("input"), names("output"));
        if inputs.len() != outputs.len() {
            return Err(Error::invalid_argument(format!(
                "an echo model has as many outputs as inputs, this one has {} and {}",
                outputs.len(),
                inputs.len()
            )));
        }
        info!("version {} of {}", context.version(), context.repository().display());
        let pairs = inputs.into_iter().zip(outputs);
        Ok(pairs.map(|(input, output)| Pair { input, output }).collect())
    }

    fn create_instance(
        model: &Arc<Vec<Pair>>,
        context: &InstanceContext,
    ) -> Result<EchoInstance, Error> {
        info!("{:?} instance on device {}", context.kind(), context.device_id());
        Ok(EchoInstance { pairs: model.clone(), instance: context.instance() })
    }

    fn execute(instance: &EchoInstance, requests: Requests<'_>) {
        let start = now_ns();
        let mut count = 0;
        for request in requests {
            let compute_start = now_ns();
            let inputs = read(&request, &instance.pairs);
            let compute_end = now_ns();
            let answered = match inputs {
                Ok(inputs) => request.respond(|response| write(response, &inputs)),
                Err(error) => request.fail(error),
            };
            let times = Times { start, compute_start, compute_end, end: now_ns() };
            answered.report(&instance.instance, times);
            count += 1;
        }
        let end = now_ns();
        let times = Times { start, compute_start: start, compute_end: end, end };
        instance.instance.report_batch(count, times);
    }
}

/// An output, ready to be sent.
struct Echoed {
    output: String,
    data_type: DataType,
    shape: Vec<i64>,
    bytes: Vec<u8>,
}

fn read(request: &Request, pairs: &[Pair]) -> Result<Vec<Echoed>, Error> {
    if let Some((_, value)) = request.parameters().find(|(name, _)| *name == "fail") {
        return Err(Error::unavailable(format!("parameter 'fail' is {value}")));
    }
    let wanted = pairs.iter().filter(|pair| request.wants(&pair.output));
    wanted
        .map(|pair| {
            let input = request.input(&pair.input)?;
            let mut bytes = Vec::new();
            input.read_into(&mut bytes)?;
            let (data_type, shape) = (input.data_type(), input.shape().to_vec());
            Ok(Echoed { output: pair.output.clone(), data_type, shape, bytes })
        })
        .collect()
}

fn write(response: &mut Response<'_>, outputs: &[Echoed]) -> Result<(), Error> {
    outputs.iter().try_for_each(|echoed| {
        response.output(&echoed.output, echoed.data_type, &echoed.shape, &echoed.bytes)
    })
}

export_backend!(Echo);
